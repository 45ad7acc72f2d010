"""The data set: scenes, chips and folds, and what is wrong with their labels."""
