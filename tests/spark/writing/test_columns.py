"""What a payload can hold is known when a query is planned."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CalendarIntervalType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
)
from tests.spark.support.query_options import read_options

from ackline.core.errors import ConfigError
from ackline.spark.writing.columns import classify_columns

TEXT = StringType()


def plan(*fields):
    schema = StructType([StructField("id", TEXT), *(StructField(*field) for field in fields)])
    asked = read_options("write", {"store": "x", "table": "jobs", "queue": "email"})
    return classify_columns(schema, asked)


def test_a_payload_may_be_made_of_these():
    kinds: list[DataType] = [
        *(TEXT, BinaryType(), BooleanType(), IntegerType(), DoubleType(), DecimalType(10, 2)),
        *(DateType(), TimestampType(), TimestampNTZType(), DayTimeIntervalType(), NullType()),
        *(ArrayType(LongType()), MapType(TEXT, ArrayType(TEXT))),
        StructType([StructField("a", StructType([StructField("b", TEXT)]))]),
    ]
    names = [f"field {number}" for number in range(len(kinds))]

    assert plan(*zip(names, kinds, strict=True)).fields == tuple(names)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (YearMonthIntervalType(), "to is interval year to month, which no payload can hold: cast"),
        (CalendarIntervalType(), "to is interval, which no payload can hold"),
        (VariantType(), "to is variant, which no payload can hold: to_json makes text of it"),
        (ArrayType(VariantType()), "to[] is variant"),
        (MapType(TEXT, VariantType()), "to.value is variant"),
        (StructType([StructField("a", VariantType())]), "to.a is variant"),
        (StructType([StructField("a", TEXT)] * 2), "to have several fields 'a'"),
    ],
)
def test_what_a_payload_cannot_hold_is_refused(kind, words):
    for name in ("to", "payload"):
        with pytest.raises(ConfigError) as caught:
            plan((name, kind))

        assert words.replace("to", name, 1) in str(caught.value)


def test_names_that_are_there_twice_are_refused():
    with pytest.raises(ConfigError, match="'to'"):
        plan(("to", TEXT), ("to", TEXT))
