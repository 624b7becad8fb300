"""Prints a table of settings as Markdown for the docs and as comments for an example file."""

import textwrap
from collections.abc import Iterator

from odradek.config.definition import REQUIRED, Fallback, Setting
from odradek.config.settings import Settings
from odradek.config.types import HIDDEN, ConfigType

_COLUMNS = ("Setting", "Type", "Default", "Allowed", "Update", "Importance", "Meaning")
_WIDTH = 100


def as_markdown(table: type[Settings]) -> str:
    """Return one row per setting, in the order of declaration."""
    rows = [_row(_COLUMNS), _row(["---"] * len(_COLUMNS))]
    rows += [_row(_cells(setting)) for setting in table.by_name.values()]
    return "\n".join(rows) + "\n"


def as_properties(table: type[Settings]) -> str:
    """Return every setting commented out, with its default."""
    return "\n".join(_comment(setting) for setting in table.by_name.values())


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _cells(setting: Setting) -> list[str]:
    return [
        f"`{setting.name}`",
        setting.type.name.lower(),
        _default(setting),
        ", ".join(_limits(setting)),
        setting.update.label,
        setting.importance.value,
        " ".join(setting.doc.split()),
    ]


def _default(setting: Setting) -> str:
    if setting.default is REQUIRED:
        return "required"
    if isinstance(setting.default, Fallback):
        times = setting.default.multiplier
        return f"`{setting.default.name}`" + (f" times {times}" if times != 1 else "")
    if setting.sensitive and setting.default is not None:
        return HIDDEN
    text = setting.display_value(setting.default)
    plain = f"`{text}`" if text else "none" if text is None else "empty"
    return f"{plain} (`{setting.synonym}`)" if setting.synonym else plain


def _limits(setting: Setting) -> Iterator[str]:
    if setting.bounds:
        yield setting.bounds
    if setting.one_of:
        word = "any of" if setting.type is ConfigType.LIST else "one of"
        yield f"{word} {', '.join(setting.one_of)}"
    if setting.non_empty:
        yield "not empty"


def _comment(setting: Setting) -> str:
    traits = [setting.type.name.lower(), *_limits(setting), setting.update.label]
    if setting.synonym or setting.literal_default is None:
        traits.append(f"default: {_default(setting)}".replace("`", ""))
    lines = [*_wrap_comment(" ".join(setting.doc.split())), *_wrap_comment("; ".join(traits))]
    return "\n".join(
        [*lines, f"#{setting.name}={setting.display_value(setting.literal_default) or ''}", ""]
    )


def _wrap_comment(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, _WIDTH, initial_indent="# ", subsequent_indent="# ")
