"""Two processes that were interrupted again and again go on as if nothing had happened."""


def test_weights_buffers_and_moments_are_those_of_a_training_left_alone(tmp_path, seen_by):
    assert seen_by("resumed", tmp_path) == []
