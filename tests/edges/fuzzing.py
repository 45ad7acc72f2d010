"""What the fuzz tests share: how many examples they try, and edits of documents."""

import copy
import os

from hypothesis import HealthCheck, settings

MANY = int(os.environ.get("ROADSEG_FUZZ", "0"))
HOSTILE = [None, True, False, 0, -1, 1, 2, 0.5, 2**70, 1e9, -1e9, 1e-300, 1e308, 10**400]
HOSTILE += [float("inf"), float("-inf"), float("nan"), "", "x", "1", "NaN", "Infinity", "a\nb"]
HOSTILE += ["../../x", "/etc/passwd", "UNET", "unet", "resnet18", "eager", "uint8", "\0", "km/h"]
HOSTILE += ["tu-hf-hub:evil/model", "tu-local-dir:/etc", "tu-resnet18./etc", "9" * 400]
HOSTILE += [[], {}, [[]], [1, 1, 1], [0], [1, 2], [2, 1], ["x"], {"a": 1}, {"passed": 1}]


def fuzz(examples):
    """Try so many examples, or as many as ROADSEG_FUZZ says."""
    return settings(
        max_examples=MANY or examples,
        derandomize=not MANY,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def places_in(value):
    """Give the keys of a document at every depth, each with what it is a key of."""
    for key in range(len(value)) if isinstance(value, list) else list(value):
        yield value, key
        if isinstance(value[key], list | dict):
            yield from places_in(value[key])


def edits(dice, valid, only=()):
    """Return a document in which one value, or two, are dropped, doubled, nested or replaced."""
    edited = copy.deepcopy(valid)
    for _ in range(dice.choice([1, 1, 1, 2])):
        first = dice.choice(sorted(edited.keys() & set(only or edited)))  # all alike
        below = edited.get(first)
        inside = list(places_in(below)) if isinstance(below, list | dict) else []
        where, key = dice.choice([(edited, first)] * 2 + inside)
        what = dice.choice(["replace", "replace", "replace", "drop", "nest", "add"])
        value = copy.deepcopy(dice.choice(HOSTILE))
        if what == "replace":
            where[key] = value
        elif what == "drop":
            del where[key]
        elif what == "nest":
            where[key] = [where[key]]
        elif what == "add" and isinstance(where, dict):
            where["unheard of"] = value
        elif what == "add":
            where.append(value)
        if not edited.keys() & set(only or edited):
            break
    return edited
