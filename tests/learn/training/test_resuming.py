"""Two processes that were interrupted go on as if nothing had happened."""


def test_weights_buffers_and_moments_are_those_of_a_training_left_alone(tmp_path, seen_by):
    differing = seen_by("resumed", tmp_path)
    assert len(differing) == 6
    assert {key: names for key, names in differing.items() if names} == {}
