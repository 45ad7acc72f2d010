"""The data set: scenes, chips, folds, and errors of their labels."""
