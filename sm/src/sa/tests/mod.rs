mod hostile;
mod paths;
mod records;
mod walk;
mod world;
