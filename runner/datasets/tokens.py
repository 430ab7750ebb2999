"""Prompt tokens as the server counts them: the served model's chat template and tokenizer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn, Protocol

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer

from runner.errors import SpecError

Message = Mapping[str, Any]

_SPECIAL_TOKENS = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
# one encoding takes about 300 bytes a token while it is counted
_BATCH_CHARACTERS = 1_000_000
_HELLO = ({"role": "user", "content": "hello"},)
# what a template's own code may raise; jinja2 does not wrap these
_RENDERING_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class PromptLike(Protocol):
    """One row: its text, its messages (role and content), or the texts of its user turns."""

    @property
    def id(self) -> str:
        """Name of the row, for error messages."""

    @property
    def content(self) -> Any:
        """A text, a list of messages, or a list of texts."""


class PromptSetLike(Protocol):
    """A prompt set; `runner.jobs.PromptRows` is one."""

    @property
    def rows(self) -> Sequence[PromptLike]:
        """The rows in the order in which they are counted."""


@dataclass(frozen=True)
class RowTokens:
    """Prompt tokens of one row.

    Args:
        exact: false where answers of the model become part of a prompt.
        tokens: of the row's longest prompt; a lower bound when not exact.
        turns: of each request's prompt. The first is always exact, the later ones are counted
            with empty answers before them.
    """

    exact: bool
    tokens: int
    turns: tuple[int, ...]


class TokenCounter:
    """Counts what `usage.prompt_tokens` of a chat request will say.

    A 1M-token prompt takes some 300 MB while it is counted.

    Args:
        sha256: of the files that the counts depend on.
    """

    def __init__(self, tokenizer: Tokenizer, template: _ChatTemplate, sha256: str):
        self._tokenizer = tokenizer
        self._template = template
        self.sha256 = sha256

    @classmethod
    def from_files(
        cls,
        tokenizer_json: bytes,
        tokenizer_config: bytes | None = None,
        chat_template: bytes | None = None,
    ) -> TokenCounter:
        """A counter from the contents of `tokenizer.json`, `tokenizer_config.json` and
        `chat_template.jinja`; without the last one, the template in the configuration counts.

        Raises:
            SpecError: a file is damaged, there is no template, or it can't render one question.
        """
        config = _config(tokenizer_config)
        special = _special_tokens(config)
        tokenizer = _tokenizer(tokenizer_json, config, special)
        template = _ChatTemplate(_template_text(config, chat_template), special)
        template.render(_HELLO, add_generation_prompt=True, thinking=None)
        digest = hashlib.sha256()
        for data in (tokenizer_json, tokenizer_config or b"", chat_template or b""):
            digest.update(hashlib.sha256(data).digest())
        return cls(tokenizer, template, digest.hexdigest())

    def count_text(self, text: str) -> int:
        """Tokens of a text alone: no chat template, no special tokens around it."""
        return self._lengths([text])[0]

    def count_messages(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        thinking: bool | None = None,
    ) -> int:
        """Tokens of a conversation as the chat template renders it.

        Special tokens are those that the template writes; none is added to them, as in vLLM.

        Args:
            messages: each with role and content.
            add_generation_prompt: with the beginning of the answer, as a chat request has it.
            thinking: `enable_thinking` of the template; left out when None.

        Raises:
            SpecError: the template refuses the conversation.
        """
        rendered = self._template.render(
            messages, add_generation_prompt=add_generation_prompt, thinking=thinking
        )
        return self.count_text(rendered)

    def count_rows(
        self, prompts: PromptSetLike, *, thinking: bool | None = None
    ) -> tuple[RowTokens, ...]:
        """Prompt tokens of every row, in the order of the rows.

        Raises:
            SpecError: the template refuses a row; the server would refuse it, too.
        """
        requests = [_requests(row.content) for row in prompts.rows]
        rendered = self._rendered(prompts.rows, requests, thinking)
        lengths = iter(self._lengths(rendered))
        counted = (tuple(next(lengths) for _ in row) for row in requests)
        return tuple(RowTokens(len(turns) == 1, max(turns), turns) for turns in counted)

    def _rendered(
        self,
        rows: Sequence[PromptLike],
        requests: Sequence[Sequence[Sequence[Message]]],
        thinking: bool | None,
    ) -> Iterator[str]:
        for row, conversations in zip(rows, requests, strict=True):
            for messages in conversations:
                try:
                    yield self._template.render(
                        messages, add_generation_prompt=True, thinking=thinking
                    )
                except SpecError as problem:
                    raise SpecError(
                        f"{row.id}: {problem.what}", next_step=problem.next_step
                    ) from problem

    def _lengths(self, texts: Iterable[str]) -> list[int]:
        lengths: list[int] = []
        for batch in _batches(texts):
            encodings = self._tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            lengths.extend(len(encoding) for encoding in encodings)
        return lengths


class _ChatTemplate:
    """A chat template in the environment that Hugging Face's templates are written for."""

    def __init__(self, text: str, special: Mapping[str, str]):
        environment = _environment()
        try:
            tree = environment.parse(text)
            self._template = environment.from_string(text)
        except jinja2.TemplateError as error:
            raise _unusable(f"it does not compile: {error}") from error
        unknown = meta.find_undeclared_variables(tree).intersection(_SPECIAL_TOKENS) - set(special)
        if unknown:
            names = ", ".join(sorted(unknown))
            raise _unusable(f"it uses {names}, and tokenizer_config.json does not say what that is")
        self._special = {name: token for name, token in special.items() if token}
        self._wants_parts = _walks_through_content(tree)

    def render(
        self, messages: Sequence[Message], *, add_generation_prompt: bool, thinking: bool | None
    ) -> str:
        """The prompt as text. Raises a SpecError when the template refuses the messages."""
        choice = {} if thinking is None else {"enable_thinking": thinking}
        try:
            return self._template.render(
                messages=[self._message(message) for message in messages],
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._special,
                **choice,
            )
        except _RENDERING_ERRORS as error:
            raise _unusable(f"it refuses the messages: {error}") from error

    def _message(self, message: Message) -> dict[str, Any]:
        content = message["content"]
        if self._wants_parts and isinstance(content, str):
            content = [{"type": "text", "text": content}]
        return {**message, "content": content}


class _GenerationTag(Extension):
    """`{% generation %}` marks what the assistant says; it changes nothing in the text."""

    tags = frozenset({"generation"})  # type: ignore[assignment]

    def parse(self, parser: Parser) -> nodes.Node:
        """The body of the tag, in a scope of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def _environment() -> ImmutableSandboxedEnvironment:
    # autoescape stays off: a prompt is no HTML, and the server renders without it
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _walks_through_content(tree: nodes.Template) -> bool:
    """Whether a content must be a list of parts: vLLM's rule (`chat_utils`, content format auto),
    a loop over `message.content`, or over a variable called `content`."""
    return any(_is_content(loop.iter) for loop in tree.find_all(nodes.For))


def _is_content(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Filter | nodes.Test) and node.node is not None:
        return _is_content(node.node)
    if isinstance(node, nodes.Getattr):
        return node.attr == "content"
    if isinstance(node, nodes.Getitem):
        if isinstance(node.arg, nodes.Slice):
            return _is_content(node.node)
        return isinstance(node.arg, nodes.Const) and node.arg.value == "content"
    return isinstance(node, nodes.Name) and node.name == "content"


def _requests(content: Any) -> list[list[Message]]:
    """The conversations of one row's requests; answers that don't exist yet are empty."""
    if isinstance(content, str):
        return [[{"role": "user", "content": content}]]
    if isinstance(content[0], str):
        conversations: list[list[Message]] = []
        before: list[Message] = []
        for turn in content:
            before = [*before, {"role": "user", "content": turn}]
            conversations.append(before)
            before = [*before, {"role": "assistant", "content": ""}]
        return conversations
    return [list(content)]


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and characters + len(text) > _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def _config(data: bytes | None) -> Mapping[str, Any]:
    if data is None:
        return {}
    try:
        config = json.loads(data)
    except ValueError as error:
        raise _damaged("tokenizer_config.json", str(error)) from error
    if not isinstance(config, dict):
        raise _damaged("tokenizer_config.json", "expected a JSON object")
    return config


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Special tokens by name, as text; empty where the model has none."""
    return {name: _token_text(config[name]) for name in _SPECIAL_TOKENS if name in config}


def _token_text(token: Any) -> str:
    # a string, an AddedToken as an object, or null
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else ""


def _tokenizer(data: bytes, config: Mapping[str, Any], special: Mapping[str, str]) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_buffer(data)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        _add_tokens(tokenizer, config, special)
    except Exception as error:  # the library raises nothing narrower
        raise _damaged("tokenizer.json", str(error)) from error
    return tokenizer


def _add_tokens(
    tokenizer: Tokenizer, config: Mapping[str, Any], special: Mapping[str, str]
) -> None:
    """Tokens that only the configuration has are tokens for the server, too."""
    declared = config.get("added_tokens_decoder") or {}
    for _, token in sorted(declared.items(), key=lambda item: int(item[0])):
        if tokenizer.token_to_id(token["content"]) is None:
            tokenizer.add_tokens([AddedToken(**token)])
    missing = [text for text in special.values() if text and tokenizer.token_to_id(text) is None]
    tokenizer.add_special_tokens(missing)


def _template_text(config: Mapping[str, Any], chat_template: bytes | None) -> str:
    if chat_template is not None:
        try:
            return chat_template.decode()
        except UnicodeDecodeError as error:
            raise _damaged("chat_template.jinja", str(error)) from error
    template = config.get("chat_template")
    if isinstance(template, list):
        template = {item["name"]: item["template"] for item in template}.get("default")
    if not isinstance(template, str):
        raise SpecError(
            "the tokenizer has no chat template; expected chat_template.jinja, or chat_template "
            "in tokenizer_config.json",
            next_step="name a tokenizer that has one ('tokenizer' of the job)",
        )
    return template


def _unusable(why: str) -> SpecError:
    return SpecError(
        f"the chat template can't be used to count prompt tokens: {why}",
        next_step="see chat_template.jinja or tokenizer_config.json of the served model",
    )


def _damaged(name: str, why: str) -> SpecError:
    return SpecError(
        f"{name} can't be read: {why}", next_step=f"replace {name} of the served model"
    )
