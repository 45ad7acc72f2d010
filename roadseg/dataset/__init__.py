"""The data set: scenes, chips and folds; shifts of labels; references; confidence of edges."""
