import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roadseg.roads.labels.maxspeed import maxspeed_mph
from roadseg.roads.speeds import KPH_PER_MPH


def kph(value):
    return maxspeed_mph(value) * KPH_PER_MPH


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        (["50", " 50 ", "50.0", 50, 50.0, np.int32(50)], 50),
        (["50 km/h", "50km/h", "50 KM/H", "50 kmh", "50kph"], 50),
        (["30 mph", "30mph"], 30 * KPH_PER_MPH),
        (["7.5 MPH"], 7.5 * KPH_PER_MPH),
        (["10 m/s"], 36),
        (["10 knots"], 18.52),
        (["walk", "DE:living_street"], 7),
        (["none", "DE:motorway"], 130),  # As Germany advises.
        (["50;30", "30; 50", "50|30", "50,30", "['50', '30']", "50;signals", "50; 30 mph"], 50),
        (["50; 35 mph"], 35 * KPH_PER_MPH),
        (["DE:urban", "de:urban", "FR:urban"], 50),
        (["DE:rural", "RO:trunk"], 100),
        (["RU:urban"], 60),
        (["RU:living_street"], 20),
        (["FR:rural"], 80),
        (["IT:rural"], 90),
        (["CH:motorway"], 120),
        (["BE-VLG:rural", "BE:VLG:rural", "UZ:urban"], 70),
        (["DE:bicycle_road"], 30),
        (["GB:nsl_single"], 60 * KPH_PER_MPH),
        (["GB:nsl_dual", "UK:motorway"], 70 * KPH_PER_MPH),
        (["GB:nsl_restricted"], 30 * KPH_PER_MPH),
        (["DE:zone30", "DE:zone:30", "DE:30", "zone:30", "zone30", "AU:zone30"], 30),
        (["Zone 30", "ZONE 30", "Tempo 30", "tempo30"], 30),
        (["GB:zone:20", "GB:20 mph", "GB:20_mph", "US:20"], 20 * KPH_PER_MPH),
        (["300"], 300),
    ],
)
def test_a_speed_is_read_in_km_per_hour(values, limit):
    assert [kph(value) for value in values] == pytest.approx([limit] * len(values))


def test_a_number_without_unit_is_in_the_unit_of_the_caller():
    assert maxspeed_mph("45", unit="mph") == 45
    assert maxspeed_mph("50 km/h", unit="mph") == pytest.approx(50 / KPH_PER_MPH)


@pytest.mark.parametrize(
    "value",
    [
        *("BE:rural", "US:CA:urban", "US:urban", "XX:urban", "DE:school"),  # not known
        *("DE:274", "DE:274-70", "DE:sign:274-70", "DE:zone"),  # of traffic signs
        *(0, "0", "0 mph", "0.0", -5, "-5", False, True),
        *(None, math.nan, np.nan, "", " ", "None", "nan", "<NA>"),
        "signals",
        "variable",
        "sign",
        "fast",
        "50 (wet)",
        "~50",
        "50 furlongs",
        "1e2",
        *("inf", "301", "187 mph"),
        ";",
        "[",
    ],
)
def test_what_is_no_speed_states_none(value):
    assert maxspeed_mph(value) is None


@example(300.0)
@given(st.one_of(st.text(), st.floats(), st.integers(), st.binary(), st.lists(st.text())))
def test_nothing_raises_and_what_is_found_can_be_driven(value):
    mph = maxspeed_mph(value)
    assert mph is None or 0 < mph <= 300 / KPH_PER_MPH + 1e-9


@given(st.integers(1, 186))
def test_a_speed_in_mph_stays_what_it_is(mph):
    assert maxspeed_mph(f"{mph} mph") == mph
