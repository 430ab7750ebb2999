"""Token counts equal what servers and transformers said."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runner.datasets.tokens import RowTokens, TokenCounter
from runner.errors import SpecError

DATA = Path(__file__).parents[2] / "data" / "tokenizers"
TOKENIZER = (DATA / "tiny" / "tokenizer.json").read_bytes()
CONFIG = (DATA / "tiny" / "tokenizer_config.json").read_bytes()
TEMPLATE = (DATA / "tiny" / "chat_template.jinja").read_bytes()
PROMPTS = [json.loads(line) for line in (DATA / "recorded_prompts.jsonl").open(encoding="utf-8")]
CONVERSATIONS = json.loads((DATA / "recorded_conversations.json").read_text(encoding="utf-8"))
ECHO = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"
HELLO = [{"role": "user", "content": "hello"}]


@dataclass(frozen=True)
class Row:
    id: str
    content: Any


@dataclass(frozen=True)
class Rows:
    rows: tuple[Row, ...]


def tiny(template: str | bytes | None = TEMPLATE, **config: Any) -> TokenCounter:
    changed = {**json.loads(CONFIG), **config}
    data = template.encode() if isinstance(template, str) else template
    return TokenCounter.from_files(TOKENIZER, json.dumps(changed).encode(), data)


@pytest.mark.parametrize("row", PROMPTS, ids=[row["id"] for row in PROMPTS])
def test_a_prompt_has_the_tokens_that_the_server_reported(row: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": row["text"]}]
    assert tiny().count_messages(messages) == row["prompt_tokens"]


def test_rows_have_the_tokens_that_the_server_reported() -> None:
    rows = Rows(tuple(Row(row["id"], row["text"]) for row in PROMPTS))
    counted = tiny().count_rows(rows)
    wanted = [row["prompt_tokens"] for row in PROMPTS]
    assert counted == tuple(RowTokens(True, tokens, (tokens,)) for tokens in wanted)


@pytest.mark.parametrize(
    "case",
    CONVERSATIONS["counts"],
    ids=[
        "-".join(str(case[key]) for key in ("template", "conversation", "thinking"))
        + ("-prompt" if case["add_generation_prompt"] else "")
        for case in CONVERSATIONS["counts"]
    ],
)
def test_a_conversation_has_the_tokens_that_transformers_counts(case: dict[str, Any]) -> None:
    counter = tiny(CONVERSATIONS["templates"][case["template"]])
    tokens = counter.count_messages(
        CONVERSATIONS["conversations"][case["conversation"]],
        add_generation_prompt=case["add_generation_prompt"],
        thinking=case["thinking"],
    )
    # the recorded text, encoded without a template, shows which half is wrong if one is
    assert (counter.count_text(case["rendered"]), tokens) == (case["tokens"], case["tokens"])


def test_special_tokens_are_not_doubled() -> None:
    # the tokenizer's post-processor adds <|begin|>, and so does the template
    assert tiny(ECHO).count_messages(HELLO) == 1 + tiny().count_text("hello")


def test_a_special_token_may_be_an_object() -> None:
    as_object = {"content": "<|begin|>", "lstrip": False, "special": True}
    assert tiny(ECHO, bos_token=as_object).count_messages(HELLO) == tiny(ECHO).count_messages(HELLO)


def test_a_special_token_that_the_model_lacks_is_nothing() -> None:
    assert tiny(ECHO, bos_token=None).count_messages(HELLO) == tiny().count_text("hello")


def test_tokens_of_the_configuration_alone_are_tokens() -> None:
    added = {"2048": {"content": "<|fim|>", "special": True, "lstrip": False}}
    plain = tiny().count_text("a<|fim|>b")
    counter = tiny(added_tokens_decoder=added, unk_token="<|unk|>")
    assert plain > 3
    assert counter.count_text("a<|fim|>b") == 3
    assert counter.count_text("a<|unk|>b") == 3


def test_the_template_of_the_configuration_counts_without_a_file() -> None:
    named = [
        {"name": "tool_use", "template": "tools"},
        {"name": "default", "template": ECHO},
    ]
    wanted = tiny(ECHO).count_messages(HELLO)
    assert tiny(None, chat_template=ECHO).count_messages(HELLO) == wanted
    assert tiny(None, chat_template=named).count_messages(HELLO) == wanted
    assert tiny(ECHO, chat_template="other").count_messages(HELLO) == wanted


def test_padding_and_truncation_of_the_file_are_left_out() -> None:
    data = json.loads(TOKENIZER)
    data["truncation"] = {
        "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0,
    }  # fmt: skip
    data["padding"] = {
        "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 2, "pad_type_id": 0, "pad_token": "<|pad|>",
    }  # fmt: skip
    counter = TokenCounter.from_files(json.dumps(data).encode(), CONFIG, TEMPLATE)
    text = PROMPTS[0]["text"]
    assert counter.count_text(text) == tiny().count_text(text) != 4


def test_turns_are_exact_for_the_first_request_alone() -> None:
    rows = Rows((Row("set/1", ["One?", "And two?"]), Row("set/2", ["One?"])))
    counter = tiny()
    first = counter.count_messages([{"role": "user", "content": "One?"}])
    second = counter.count_messages(
        [
            {"role": "user", "content": "One?"},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": "And two?"},
        ]
    )
    assert second > first
    assert counter.count_rows(rows) == (
        RowTokens(False, second, (first, second)),
        RowTokens(True, first, (first,)),
    )


def test_messages_of_a_row_are_one_exact_request() -> None:
    conversation = CONVERSATIONS["conversations"]["rounds"]
    tokens = tiny().count_messages(conversation)
    counted = tiny().count_rows(Rows((Row("set/1", conversation),)))
    assert counted == (RowTokens(True, tokens, (tokens,)),)


def test_no_rows_have_no_counts() -> None:
    assert tiny().count_rows(Rows(())) == ()


def test_batches_change_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(tuple(Row(row["id"], row["text"]) for row in PROMPTS))
    whole = tiny().count_rows(rows)
    monkeypatch.setattr("runner.datasets.tokens._BATCH_CHARACTERS", 300)
    assert tiny().count_rows(rows) == whole


def test_a_refused_row_is_named() -> None:
    counter = tiny(CONVERSATIONS["templates"]["chatml_thinking"])
    late = [*HELLO, {"role": "system", "content": "late"}, *HELLO]
    with pytest.raises(SpecError) as caught:
        counter.count_rows(Rows((Row("set/1", "fine"), Row("set/2", late))))
    assert caught.value.what == (
        "set/2: the chat template can't be used to count prompt tokens: it refuses the messages: "
        "the system message comes first"
    )


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% for %}", "it does not compile: "),
        ("{{ messages | no_such_filter }}", "it does not compile: No filter named"),
        ("{{ raise_exception('not today') }}", "it refuses the messages: not today"),
        ("{{ messages + 1 }}", "it refuses the messages: can only concatenate list"),
        ("{{ messages.append(1) }}", "it refuses the messages: "),
        ("{{ ''.__class__.__mro__ }}", "it refuses the messages: "),
        ("{{ cls_token }}", "it uses cls_token, and tokenizer_config.json does not say"),
    ],
)
def test_a_template_that_can_not_be_rendered_gives_its_reason(template: str, reason: str) -> None:
    with pytest.raises(SpecError) as caught:
        tiny(template)
    start = f"the chat template can't be used to count prompt tokens: {reason}"
    assert caught.value.what.startswith(start)


def test_files_that_can_not_be_used_are_named() -> None:
    wrong = [
        ((b"{}", CONFIG, TEMPLATE), "tokenizer.json can't be read: "),
        ((b"\xff", CONFIG, TEMPLATE), "tokenizer.json can't be read: "),
        ((TOKENIZER, b"{", TEMPLATE), "tokenizer_config.json can't be read: "),
        ((TOKENIZER, b"[]", TEMPLATE), "tokenizer_config.json can't be read: expected a JSON"),
        ((TOKENIZER, CONFIG, b"\xff"), "chat_template.jinja can't be read: "),
        ((TOKENIZER, CONFIG, None), "the tokenizer has no chat template; expected "),
        ((TOKENIZER, None, TEMPLATE), "the chat template can't be used to count prompt tokens: "),
    ]
    for files, start in wrong:
        with pytest.raises(SpecError) as caught:
            TokenCounter.from_files(*files)
        assert caught.value.what.startswith(start)


def test_the_hash_tells_the_files_apart() -> None:
    assert tiny().sha256 == tiny().sha256
    assert len({tiny().sha256, tiny(ECHO).sha256, tiny(pad_token=None).sha256}) == 3
