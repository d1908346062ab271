"""Masking of credentials in what errors say."""

from __future__ import annotations

import logging

import pytest
from redraft.server.app import mask_logs
from redraft.state.masking import mask_error, masked

SECRETS = {
    "a password in an address": ("can't reach postgresql://me:hunter2@db.example/runs", "hunter2"),
    "a key by its name": ("GET /v1?api_key=abcdef12345&n=1 failed", "abcdef12345"),
    "a password in JSON": ('{"password": "open sesame"}', "open"),
    "a header": ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    "a bearer token": ("sent Bearer eyJhbGciOi.123", "eyJhbGciOi"),
    "a key that says whose it is": ("Incorrect API key provided: sk-proj-1234567890abcdef", "1234567890"),
    "a key with its middle starred out": ("Incorrect API key provided: sk-proj-********cdef1", "cdef1"),
    "a quoted password of two words": ("password='open sesame' was refused", "sesame"),
    "a password in JSON within JSON": (r'{"body": "{\"password\": \"open sesame\"}"}', "sesame"),
    "a password that is a word": ("password: swordfish", "swordfish"),
    "a key with its middle left out": ("Incorrect API key provided: sk-ab...wxyz", "wxyz"),
    "the end of a key": ("the API key ending in wx7z is revoked", "wx7z"),
    "a key in base64": ("got c2stcHJvai0xMjM0NTY3ODkwYWJjZGVm", "c2stcHJv"),
    "a key within base64": ("got dXNlcjpzay1wcm9qLTEyMzQ1Njc4OTA=", "dXNlcjp"),
    "a key in hex": ("got 736b2d70726f6a2d31323334353637383930", "736b2d70"),
    "a cloud key": ("AKIAIOSFODNN7EXAMPLE is not valid", "IOSFODNN7"),
}


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS)
def test_an_error_shows_no_credential(text: str, secret: str) -> None:
    """An error message keeps its words and loses the key or password that it quotes."""
    assert secret in text
    assert secret not in masked(text)
    assert "***" in masked(text)
    assert masked(masked(text)) == masked(text)


def test_what_the_environment_holds_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that looks like no key is masked all the same where an environment variable holds it as one."""
    monkeypatch.setattr("redraft.state.masking._held", [])
    monkeypatch.setenv("SOMEBODY_API_KEY", "correct horse battery")
    monkeypatch.setenv("REDRAFT_SERVE_TOKENS", "swordfish-of-ann, swordfish-of-ann-and-bob")
    monkeypatch.setenv("A_TOKEN", "short")
    monkeypatch.setenv("KEYBOARD", "keyboard of no secret")
    mask_logs()
    told = "correct horse battery for swordfish-of-ann-and-bob and (swordfish-of-ann) in short: keyboard of no secret"
    assert masked(told) == "*** for *** and (***) in short: keyboard of no secret"


@pytest.mark.parametrize(
    "text",
    [
        "the password is too short",
        "a task about sk-ating",
        "https://example.org/a@b",
        "recipe reads /etc/passwd: if you trust it",
        "a wrong password: the server refused it",
        "sk-... is how keys begin",
        "commit 4fd8c0a1b2c3d4e5f60718293a4b5c6d7e8f9012 of 2026-11-22T23-05-46-results",
        "",
    ],
)
def test_plain_words_stay(text: str) -> None:
    """What is no credential is not touched."""
    assert masked(text) == text


def test_a_raised_error_is_masked_in_place() -> None:
    """Whoever prints, logs or stores an error that was raised later sees no key, in its arguments and its message."""
    error = ValueError("bad key sk-abcdef123456", "at https://me:secret1@host/v1")
    error.message = "bad key sk-abcdef123456"  # type: ignore[attr-defined]
    mask_error(error)
    told = f"{error} {error.args} {error.message}"  # type: ignore[attr-defined]
    assert "abcdef123456" not in told
    assert "secret1" not in told
    assert "bad key sk-***" in told


def test_the_servers_log_shows_no_credential(caplog: pytest.LogCaptureFixture) -> None:
    """A library's error that quotes a key is logged without it, in the message and in the traceback."""
    mask_logs()
    log = logging.getLogger("redraft.server")
    quoted = "sk-abcdef123456"
    try:
        raise ValueError(f"refused: {quoted}")
    except ValueError:
        log.exception("a call with %s failed", "sk-fedcba654321")
    (record,) = caplog.records
    shown = logging.Formatter().format(record)
    assert "abcdef123456" not in shown
    assert "fedcba654321" not in shown
    assert shown.count("sk-***") == 2
