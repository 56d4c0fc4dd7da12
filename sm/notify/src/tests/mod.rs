mod pure;
mod receivers;
