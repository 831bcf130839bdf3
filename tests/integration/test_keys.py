"""Keys: one place spells them, a partition is one slot, and partitions spread evenly over a cluster."""

import re
from importlib import resources

import pytest
from redis.crc import key_slot

from taskflow_streams.keys import MAX_PARTITIONS, NAMES, SLOTS, control_keys, lua_names, partition_keys, partition_tag


def crc16(key: bytes) -> int:
    """CRC-16/XMODEM, as the cluster specification has it, written out."""
    crc = 0
    for byte in key:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
        crc &= 0xFFFF
    return crc


def slot(key: str) -> int:
    """The slot of a key: that of its tag."""
    tag = re.search(r"\{(.+?)\}", key)
    assert tag is not None
    return crc16(tag[1].encode()) % SLOTS


@pytest.mark.parametrize("partition", [0, 1, 2, 3, 511, 1023])
def test_all_keys_of_a_partition_share_one_slot(partition: int) -> None:
    """So every script is legal on a cluster."""
    keys = partition_keys("tf", partition)
    spelt = [keys(name, "some:{suffix}" if NAMES[name][0].endswith(":") else "") for name in NAMES]

    assert {slot(key) for key in spelt} == {slot(keys("meta"))}
    assert {key_slot(key.encode()) for key in spelt} == {slot(keys("meta"))}


@pytest.mark.parametrize("count", [2, 3, 4, 6, 8, 16, 100, 1024])
def test_any_number_of_partitions_spreads_evenly(count: int) -> None:
    """However many nodes share the slots, none has many more partitions than another."""
    slots = [slot(partition_keys("tf", i)("meta")) for i in range(count)]
    for nodes in (2, 3, 4, 8):
        if nodes <= count:
            load = [sum(at * nodes // SLOTS == node for at in slots) for node in range(nodes)]
            assert max(load) - min(load) <= 3, (nodes, load)


def test_tags_are_short_different_and_for_ever() -> None:
    """A tag that changed would lose a partition's data."""
    tags = [partition_tag(i) for i in range(MAX_PARTITIONS)]

    assert len(set(tags)) == MAX_PARTITIONS
    assert max(map(len, tags)) <= 10
    assert tags[:4] == ["p0.425", "p1.1840", "p2.171", "p3.1534"]


@pytest.mark.parametrize("partition", [-1, MAX_PARTITIONS])
def test_there_are_1024_partitions(partition: int) -> None:
    """An id has no room for more."""
    with pytest.raises(ValueError, match="0 to 1023"):
        partition_tag(partition)


def test_no_two_names_can_be_mistaken_for_one_another() -> None:
    """No key is, or begins like, a key of another name."""
    spellings = sorted(spelling for spelling, _, _ in NAMES.values())

    assert len(set(spellings)) == len(spellings)
    for prefix in (spelling for spelling in spellings if spelling.endswith(":")):
        assert [spelling for spelling in spellings if spelling.startswith(prefix)] == [prefix]


def test_the_control_keys_belong_to_no_partition() -> None:
    """And namespaces do not meet."""
    assert control_keys("tf")("meta") == "tf:{control}:meta"
    assert partition_keys("a", 0)("meta") != partition_keys("b", 0)("meta")


def test_no_script_spells_a_key() -> None:
    """They use the table at their head, and every name in it that they use exists."""
    folder = resources.files("taskflow_streams") / "scripts"
    scripts = {path.name: path.read_text("utf-8") for path in folder.iterdir() if path.name.endswith(".lua")}
    assert len(scripts) > 20
    known = set(re.findall(r"(\w+) = P", lua_names()))
    assert known == set(NAMES)
    for name, text in scripts.items():
        assert set(re.findall(r"\bK\.(\w+)", text)) <= known, name
        keys = re.findall(r"redis\.p?call\('[A-Z]+', *([^,)]+)", text)
        assert [key for key in keys if re.match(r"'[a-z]|P\b|KEYS\b", key)] == [], name
