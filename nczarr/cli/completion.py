"""Run ``nczarr completion``: print the completion script of a shell."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from nczarr.cli.options import define
from nczarr.errors import UnsupportedError


def define_completion(
    parser: argparse.ArgumentParser, build_parser: Callable[[], argparse.ArgumentParser]
) -> None:
    """Define ``nczarr completion`` for the commands of a parser that `build_parser` builds."""
    parser.add_argument("shell", choices=["bash", "zsh", "fish", "tcsh"])
    define(
        parser,
        lambda options: _run_completion(options.shell, build_parser()),
        "  nczarr completion bash > ~/.local/share/bash-completion/completions/nczarr\n"
        "  nczarr completion zsh > ~/.zfunc/_nczarr\n"
        "  nczarr completion fish > ~/.config/fish/completions/nczarr.fish\n",
    )


def _run_completion(shell: str, parser: argparse.ArgumentParser) -> None:
    if shell == "fish":  # shtab does not support it
        print(*_fish_lines(parser), sep="\n")
        return
    try:
        import shtab
    except ImportError:
        raise UnsupportedError(
            "nczarr completion needs the package shtab", hint="pip install shtab"
        ) from None
    print(shtab.complete(parser, shell))


def _fish_lines(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the completions of fish: the commands, and for each command its options with their choices."""
    commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for choice in commands._choices_actions:
        yield f"complete -c nczarr -n __fish_use_subcommand -f -a {choice.dest} -d {_quoted(choice.help)}"
    for name, command in commands.choices.items():
        for action in command._actions:
            words = [f"complete -c nczarr -n '__fish_seen_subcommand_from {name}'"]
            for text in action.option_strings:
                words.append(f"-l {text[2:]}" if text.startswith("--") else f"-s {text[1:]}")
            if action.choices is not None:
                words.append(f"-x -a {_quoted(' '.join(action.choices))}")
            elif not action.option_strings:
                continue
            elif action.nargs != 0:
                words.append("-r")
            yield " ".join([*words, "-d", _quoted(action.help)])


def _quoted(text: str | None) -> str:
    escaped = (text or "").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
