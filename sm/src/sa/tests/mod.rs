mod hostile;
mod isolation;
mod paths;
mod records;
mod walk;
mod world;
