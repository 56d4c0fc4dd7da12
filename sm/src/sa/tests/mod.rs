mod hostile;
mod isolation;
mod multicast;
mod paths;
mod records;
mod services;
mod walk;
mod world;
