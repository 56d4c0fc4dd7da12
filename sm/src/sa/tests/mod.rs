mod hostile;
mod isolation;
mod multicast;
mod paths;
mod records;
mod walk;
mod world;
