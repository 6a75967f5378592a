"""Many plain slices of a Chrome trace at once come out as they do one by one."""

from __future__ import annotations

import io
import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.trace import Trace
from tests.naive import chrome as plain
from tests.naive import texts as plain_texts
from trnprof.jit import chrome as compiled
from trnprof.jit import texts as compiled_texts
from trnprof.readers import chrome, chrome_events, chrome_plain, timeline

SCALARS = (
    '"a"', '"MATMUL 1"', '"\\u00b5"', '"µ"', '"a\\"b"', '""', "0", "12", "-3", "-0", "007", "1.5", "0.000001", "1e3",
    "12.1234567", "123456789012", "1234567890123", "true", "null", "nul", "-", "1.", '"X"',
)  # fmt: skip
ARGS = (
    "{}", "{ }", '{"a":1}', '{"a": 1}', '{"a":[1,2,{"b":null}]}', '{"a":1.50}', '{"a":-0}', '{"a":1e5}', '{"a":"µ"}',
    '{"a":{"b":{"c":{"d":{"e":{"f":{"g":1}}}}}}}', '{"a":12345678901234567890}', "[1]", '{"a":tru}', '{"a":1,"a":2}',
    '{"a" :[ ]}', '{"x":"a b"}', '{"a":1.5}', '{"a":-2.0,"b":0.25}', '{"a":0.001}', '{"a":0.0001}', '{"a":0.000}',
    '{"a":123456789012.345}', '{"a":123456789012.3456}', '{"a":0.1234567890123456}', '{"a":-0.5}', '{"a":10.10}',
    '{"a":0.00}', '{"a":0.0}', '{"a":0.01}',
)  # fmt: skip
EVENT = '{"ph":"X","pid":1,"tid":2,"ts":1.5,"dur":2,"name":"a","cat":"c","args":{"n":1}}'


@st.composite
def events(draw) -> str:
    fields = {
        "ph": '"X"',
        "pid": "1",
        "tid": '"t"',
        "ts": "1.5",
        "dur": "2",
        "name": '"a"',
        "cat": '"c"',
        "args": '{"n":1}',
    }
    for key in draw(st.lists(st.sampled_from(sorted(fields)), max_size=2)):
        fields[key] = draw(st.sampled_from(ARGS if key == "args" else SCALARS))
    for key in draw(st.lists(st.sampled_from(sorted(fields)), max_size=1)):
        del fields[key]
    for key in draw(st.lists(st.sampled_from(("id", "bp", "sf", "tts", "e")), max_size=1)):
        fields[key] = draw(st.sampled_from((*SCALARS, *ARGS)))
    gap = draw(st.sampled_from(("", " ", "\n")))
    items = draw(st.permutations(sorted(fields.items())))
    return "{" + f",{gap}".join(f'"{key}"{gap}:{value}' for key, value in items) + gap + "}"


def told(trace: Trace) -> list:
    table = trace.instructions
    texts = ("track", "name", "opcode", "operands")
    rows = [
        (int(table.start_ps[k]), int(table.end_ps[k]), *(trace.text(table, name, k) for name in texts))
        for k in range(len(table))
    ]
    return [rows, trace.receipt, trace.meta.notes]


def both(data: bytes, monkeypatch) -> tuple[Trace, Trace]:
    monkeypatch.setattr(chrome_plain, "LARGE", 1 << 60)
    slow = chrome.read(io.BytesIO(data).read, "trace.json")
    monkeypatch.setattr(chrome_plain, "LARGE", 0)
    return slow, chrome.read(io.BytesIO(data).read, "trace.json")


@settings(max_examples=150, deadline=None)
@given(st.lists(events(), min_size=1, max_size=6))
def test_any_mix_of_events_reads_the_same(parts):
    named = '{"ph":"M","pid":1,"tid":"t","name":"thread_name","args":{"name":"T"}}'
    data = ("[" + ",".join([named, EVENT, *parts])).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chrome_plain, "LONGEST_WAIT", 0)
        slow, quick = both(data + b"]", patch)
    assert told(quick) == told(slow)


@pytest.mark.parametrize("value", [*ARGS, '{"a":{"x":1,"y":1},"b":{"x":1}}', '{"a":[{"x":1},{"x":2}],"x":1}'])
def test_arguments_are_written_alike(value, monkeypatch):
    slow, quick = both(("[" + EVENT + "," + EVENT.replace('{"n":1}', value) + "]").encode(), monkeypatch)
    assert told(quick) == told(slow)


def test_equal_arguments_have_one_code(monkeypatch):
    began = '{"ph":"B","pid":1,"tid":2,"ts":9,"name":"b","args":{"n":1}},{"ph":"E","pid":1,"tid":2,"ts":10}'
    spaced = EVENT.replace('{"n":1}', '{"n": 1}')
    slow, quick = both(f"[{EVENT},{began},{spaced},{EVENT}]".encode(), monkeypatch)
    assert told(quick) == told(slow)
    assert np.unique(quick.instructions.operands).size == 1


def test_thousands_of_texts_are_numbered_and_found(monkeypatch):
    parts = [EVENT.replace('{"n":1}', f'{{"n":{k % 3000}}}').replace('"a"', f'"a{k % 700}"') for k in range(9000)]
    monkeypatch.setattr(chrome_plain, "RUN", 500)
    slow, quick = both(f"[{','.join(parts)}]".encode(), monkeypatch)
    assert told(quick) == told(slow)
    assert np.unique(quick.instructions.operands).size == 3000


@pytest.mark.parametrize("args", ['{"n":%d}', '{"n":"µ %d"}', '{"n":1.50,"k":%d}'])
def test_plenty_of_arguments_read_the_same(args, monkeypatch):
    parts = [EVENT.replace('{"n":1}', args % (k % 300)) for k in range(1000)]
    parts += [part.replace('"X"', '"B"') for part in parts] + ['{"ph":"E","pid":1,"tid":2,"ts":9}'] * 1000
    data = f"[{','.join(parts)}]".encode()
    few = both(data, monkeypatch)
    monkeypatch.setattr(timeline, "PLENTY", 50)
    monkeypatch.setattr(timeline, "_MANY", 64)
    for found in both(data, monkeypatch):
        assert told(found) == told(few[0])
        assert np.unique(found.instructions.operands).size == 300


def test_times_far_from_zero_stay_exact(monkeypatch):
    parts = [EVENT.replace("1.5", str(at)) for at in ("999999999999.000001", "999999999999.000003", "-7.25")]
    slow, quick = both(f"[{','.join(parts)}]".encode(), monkeypatch)
    assert told(quick) == told(slow)


def test_threads_that_continue_others_share_their_track(monkeypatch):
    moved = '{"ph":"M","pid":1,"tid":2,"name":"lane_of","args":{"tid":5}}'
    slow, quick = both(f"[{moved},{EVENT},{EVENT.replace('2,', '3,', 1)}]".encode(), monkeypatch)
    assert told(quick) == told(slow)


BROKEN = ('{"ph":"X" "pid":1}', "{]", '{"ph":"X","args":{', "nul", '{"ph":"I","pid":1,"tid":2,"ts":3,"name":"b"}')


@settings(max_examples=100, deadline=None)
@given(
    parts=st.lists(st.one_of(events(), st.sampled_from(BROKEN)), min_size=1, max_size=30),
    gap=st.sampled_from([",", " ,\n", "," + 70 * " "]),
    head=st.sampled_from(["[", " \n[", '{"otherData":{"a":[1]},"traceEvents" : [']),
    step=st.integers(1, 700),
)
def test_a_file_read_a_little_at_a_time_is_the_file(parts, gap, head, step):
    data = (head + gap.join([EVENT, *parts]) + "]").encode()
    with pytest.MonkeyPatch.context() as patch:
        whole = both(data, patch)
        patch.setattr(chrome_events, "LONGEST", max(map(len, (*parts, EVENT))) + 2)
        patch.setattr(chrome_events, "STEP", step)
        patch.setattr(chrome_events, "FIRST", 1)
        pieces = both(data, patch)
    assert told(pieces[0]) == told(pieces[1]) == told(whole[0])


@pytest.mark.parametrize("cut", [1, 20, 60, len(EVENT) - 1])
def test_a_file_that_is_cut_off_reads_the_same(cut, monkeypatch):
    slow, quick = both(f"[{EVENT},{EVENT[:cut]}".encode(), monkeypatch)
    assert told(quick) == told(slow)


@pytest.mark.jit
@settings(max_examples=150, deadline=None)
@given(st.lists(events(), min_size=1, max_size=3))
def test_compiled_and_plain_agree(parts):
    data = np.frombuffer((",".join(parts) + "]").encode(), np.uint8)
    ours, theirs = np.zeros((2, 4, compiled.FIELDS), np.int64)
    found = compiled.plain_slices(data, 0, ours)
    assert tuple(found) == plain.plain_slices(data, 0, theirs)
    assert np.array_equal(ours[: found[0]], theirs[: found[0]]), json.dumps(parts)


@pytest.mark.jit
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([b"", b"a", b"abc", b"abd", b"x" * 9, b"x" * 8 + b"y", b"0123456"]), min_size=1))
def test_numbering_agrees_with_its_plain_twin(parts):
    source = np.frombuffer(b"".join(parts) or b"-", np.uint8)
    ends = np.cumsum([len(part) for part in parts])
    begins = np.concatenate(([0], ends[:-1]))
    results = []
    for module in (compiled_texts, plain_texts):
        slots, codes = np.full(8, -1), np.zeros(len(parts), np.int64)
        data, offsets = np.zeros(512, np.uint8), np.zeros(len(parts) + 2, np.int64)
        half = len(parts) // 2
        known = module.intern(source, begins[:half], ends[:half], slots, data, offsets, 0, codes[:half])
        wider = np.full(64 * len(parts), -1)
        module.spread(slots, wider)
        known = module.intern(source, begins[half:], ends[half:], wider, data, offsets, known, codes[half:])
        sought, found = np.frombuffer(b"abdzabcx", np.uint8), np.zeros(3, np.int64)
        module.look_up(wider, data, offsets[: known + 1], sought, np.array([0, 3, 4, 7]), found)
        results.append((known, codes.tolist(), found.tolist(), data.tolist(), offsets[: known + 1].tolist()))
    assert results[0] == results[1]


@settings(max_examples=300, deadline=None)
@given(st.from_regex(r"-?(0|[1-9][0-9]{0,11})\.[0-9]{1,17}", fullmatch=True))
def test_a_decimal_is_tidy_only_where_it_is_written_as_it_is_read(text):
    event = EVENT.replace('{"n":1}', f'{{"n":{text}}}')
    row = np.zeros((1, compiled.FIELDS), np.int64)
    assert compiled.plain_slices(np.frombuffer((event + "]").encode(), np.uint8), 0, row)[0] == 1
    if row[0, compiled.ARGS] > 0:
        assert msgspec.json.encode(float(text)).decode() == text
    assert plain.plain_slices(np.frombuffer((event + "]").encode(), np.uint8), 0, np.zeros_like(row))[0] == 1
