import numpy as np

from roadseg.roads.graph.groups import begin_runs, connected_groups, greedy_matching, group_means


def test_nodes_linked_by_way_of_others_are_one_group():
    pairs = np.array([[3, 1], [1, 4], [1, 4]])
    assert connected_groups(pairs, nodes=6).tolist() == [0, 1, 2, 1, 1, 3]
    assert connected_groups(pairs[:0], nodes=2).tolist() == [0, 1]


def test_pairs_whose_members_are_taken_are_left_out():
    assert greedy_matching(np.array([[0, 1], [1, 2], [2, 3], [4, 4]])).tolist() == [0, 2, 3]
    assert greedy_matching(np.zeros((0, 2), dtype=np.int64)).tolist() == []


def test_a_run_begins_where_one_column_differs():
    assert begin_runs(np.array([7, 7, 8, 8]), np.array([0, 0, 0, 1])).tolist() == [1, 0, 1, 1]
    assert begin_runs(np.zeros(0)).tolist() == []


def test_groups_have_the_mean_of_their_places():
    places = np.array([[0.0, 0.0], [9.0, 3.0], [2.0, 4.0]])
    assert group_means(places, np.array([0, 1, 0])).tolist() == [[1, 2], [9, 3]]
