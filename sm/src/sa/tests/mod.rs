mod hostile;
mod isolation;
mod multicast;
mod paths;
mod records;
mod searching;
mod walk;
mod world;
