"""JWTs: which issuers and keys are accepted, and key rotation."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
import time

import jwt
import pytest
from tests.service.auth.issuers import AUDIENCE, NAME, Signer, claims_of, issuer, key_set

from ackline.core.errors import ConfigError
from ackline.service.auth import jwks
from ackline.service.auth.credentials import SERVICE_TENANT, Issuer
from ackline.service.auth.jwks import (
    MAX_AGE,
    MIN_FETCH_INTERVAL,
    REFRESH_AFTER,
    JwksKeys,
    KeysUnavailable,
)
from ackline.service.auth.jwt_verifier import CACHE_SECONDS, JwtVerifier
from ackline.service.auth.permissions import Scope
from ackline.service.http.problems import Unauthorized
from ackline.service.settings import Settings, load

SECRET = b"0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def signer():
    return Signer()


@pytest.fixture(scope="module")
def other():
    return Signer("two")


@pytest.fixture
def file(tmp_path, signer):
    file = tmp_path / "jwks.json"
    file.write_text(key_set(signer))
    return file


def check(tokens, token):
    return asyncio.run(tokens.verify(token))


class TestClaims:
    @pytest.fixture
    def tokens(self, file):
        return JwtVerifier([issuer(jwks=str(file))])

    def test_identify_the_caller_and_its_scopes(self, tokens, signer):
        exp = int(time.time()) + 60
        token = signer.sign(scope="read openid", queues=["email"], kinds=["welcome"], exp=exp)

        principal = check(tokens, token)

        assert (principal.tenant, principal.name) == ("acme", "ann")
        assert principal.scopes == {Scope.READ}
        assert principal.queues == {"email"}
        assert principal.kinds == {"welcome"}
        assert principal.until == exp + 10
        assert not principal.operator

    def test_scopes_may_be_a_list(self, tokens, signer):
        assert check(tokens, signer.sign(scope=["read", "admin"])).scopes == {"read", "admin"}
        assert check(tokens, signer.sign("scope")).scopes == frozenset()

    def test_an_empty_list_of_queues_allows_none(self, tokens, signer):
        assert check(tokens, signer.sign(queues=[])).queues == frozenset()

    @pytest.mark.parametrize(
        "claims",
        [
            {"tenant": ""},
            {"tenant": 7},
            {"tenant": ["acme"]},
            {"tenant": SERVICE_TENANT},
            {"queues": "email"},
            {"kinds": [1]},
            {"scope": {"read": True}},
            {"exp": "tomorrow"},
            {"exp": 1e400},
        ],
        ids=str,
    )
    def test_invalid_ones_are_refused(self, tokens, signer, claims):
        with pytest.raises(Unauthorized):
            check(tokens, signer.sign(**claims))

    def test_only_configured_issuers_may_name_operators(self, file, signer):
        token = signer.sign(scope="read operator")

        assert not check(JwtVerifier([issuer(jwks=str(file))]), token).operator
        assert check(JwtVerifier([issuer(jwks=str(file), operators=True)]), token).operator

    def test_an_issuer_is_limited_to_its_tenants(self, file, signer):
        tokens = JwtVerifier([issuer(jwks=str(file), tenants=("acme",))])

        assert check(tokens, signer.sign()).tenant == "acme"
        with pytest.raises(Unauthorized, match="tenant"):
            check(tokens, signer.sign(tenant="beta"))

    def test_leeway_is_small(self, tokens, signer):
        check(tokens, signer.sign(exp=int(time.time()) - 5))
        with pytest.raises(Unauthorized, match="expired"):
            check(tokens, signer.sign(exp=int(time.time()) - 15))

    def test_a_cached_token_expires(self, tokens, signer, monkeypatch):
        token = signer.sign(exp=int(time.time()) - 5)
        check(tokens, token)
        checked = []
        decode = jwt.decode_complete

        def recorded(text, *args, **options):
            checked.append(text)
            return decode(text, *args, **options)

        monkeypatch.setattr(jwt, "decode_complete", recorded)
        check(tokens, token)
        assert checked == []

        soon = time.time() + 6
        assert soon < time.time() + CACHE_SECONDS
        monkeypatch.setattr(time, "time", lambda: soon)
        check(tokens, token)
        assert checked == [token]

    @pytest.mark.parametrize(
        "text",
        ["a.b.c", "..", "é.é.é", "x" * 9000, "e30.e30.", "W10.W10.W10", "[" * 5000 + ".x.y"],
        ids=lambda text: text[:10],
    )
    def test_malformed_tokens(self, tokens, text):
        with pytest.raises(Unauthorized):
            check(tokens, text)


class TestAlgorithms:
    def test_the_algorithm_is_pinned_per_issuer(self, signer, tmp_path):
        (tmp_path / "secret").write_bytes(SECRET)
        (tmp_path / "public.pem").write_bytes(signer.public_pem)
        shared = Issuer(
            issuer="shared", audience="a", algorithm="HS256", key_file=str(tmp_path / "secret")
        )
        tokens = JwtVerifier([issuer(key_file=str(tmp_path / "public.pem")), shared])
        by_secret = jwt.encode(claims_of(iss="shared", aud="a"), SECRET, "HS256")

        assert check(tokens, signer.sign()).tenant == "acme"
        assert check(tokens, by_secret).tenant == "acme"
        # An issuer's token, signed in the other one's way.
        with pytest.raises(Unauthorized, match="RS256"):
            check(tokens, jwt.encode(claims_of(), SECRET, "HS256"))
        with pytest.raises(Unauthorized, match="HS256"):
            check(tokens, signer.sign(iss="shared", aud="a"))
        with pytest.raises(Unauthorized, match="RS256"):
            check(tokens, jwt.encode(claims_of(), signer.private, "PS256"))

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({}, "either jwks or key_file"),
            ({"jwks": "a", "key_file": "b"}, "either jwks or key_file"),
            ({"jwks": "http://keys.example.com/"}, "https URL"),
            ({"jwks": "file:///etc/keys"}, "https URL"),
            ({"jwks": "a", "algorithm": "HS256"}, "public keys"),
            ({"jwks": "a", "leeway": 3600}, "leeway"),
            ({"jwks": "a", "algorithm": "none"}, "algorithm"),
            ({"jwks": "a", "audience": ""}, "audience"),
            ({"jwks": "a", "colour": "red"}, "colour"),
        ],
    )
    def test_invalid_settings(self, tmp_path, settings, message):
        options = {"issuer": NAME, "audience": AUDIENCE, "algorithm": "RS256", **settings}
        lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
        config = tmp_path / "service.toml"
        config.write_text("\n".join(["[[issuers]]", *lines]))

        with pytest.raises(ConfigError, match=r"service\.toml") as refused:
            load(config, {})
        assert message in str(refused.value)

    @pytest.mark.parametrize(
        ("algorithm", "content", "message"),
        [
            ("HS256", b"short", "32 bytes"),
            ("HS512", SECRET, "64 bytes"),
            ("RS256", b"no key", "no key for RS256"),
            ("RS256", b"-----BEGIN PRIVATE KEY-----", "private key"),
            ("ES256", None, "no key for ES256"),
            ("HS256", None, "no key for HS256"),
        ],
    )
    def test_invalid_key_files(self, tmp_path, signer, algorithm, content, message):
        file = tmp_path / "key"
        file.write_bytes(signer.public_pem if content is None else content)

        with pytest.raises(ConfigError, match=message):
            JwtVerifier([issuer_with(algorithm, key_file=str(file))])

    def test_missing_files(self, tmp_path):
        for where in ({"jwks": str(tmp_path / "no")}, {"key_file": str(tmp_path / "no")}):
            with pytest.raises(ConfigError, match="no"):
                JwtVerifier([issuer_with("RS256", **where)])

    def test_one_issuer_twice_is_refused(self, file):
        with pytest.raises(ConfigError, match="twice"):
            JwtVerifier([issuer(jwks=str(file)), issuer(jwks=str(file))])

    def test_issuers_are_not_read_from_variables(self):
        with pytest.raises(ConfigError, match="in the file"):
            load(environment={"ACKLINE_ISSUERS": "[]"})


def issuer_with(algorithm, **settings):
    return Issuer(issuer=NAME, audience=AUDIENCE, algorithm=algorithm, **settings)


class Source:
    """A JWKS behind a local URL, with a manual clock."""

    def __init__(self):
        self.content, self.status, self.fetches, self.now = b"", 200, 0, 1000.0
        source = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                source.fetches += 1
                self.send_response(source.status)
                self.send_header("location", "/elsewhere")
                self.end_headers()
                self.wfile.write(source.content)

            def log_message(self, *_args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.01])
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/jwks.json"

    def set(self, *signers):
        self.content = key_set(*signers).encode()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class TestRotation:
    @pytest.fixture
    def source(self, signer):
        source = Source()
        source.set(signer)
        yield source
        source.close()

    @pytest.fixture
    def keys(self, source):
        return JwksKeys(issuer(jwks=source.url), source.url, lambda: source.now)

    def find(self, keys, *kids):
        async def find_all():
            return await asyncio.gather(*map(keys.find, kids))

        return asyncio.run(find_all())

    def test_keys_are_fetched_once_and_kept(self, keys, source):
        found = self.find(keys, *["one"] * 50)

        assert len(set(map(id, found))) == 1
        assert found[0] is not None
        assert source.fetches == 1

    def test_a_new_key_is_fetched_when_a_token_names_it(self, keys, source, signer, other):
        self.find(keys, "one")
        source.set(signer, other)
        source.now += MIN_FETCH_INTERVAL

        assert self.find(keys, "two") != [None]
        assert source.fetches == 2

    def test_unknown_key_ids_cause_at_most_one_fetch_per_interval(self, keys, source):
        self.find(keys, "one")
        for n in range(20):
            assert self.find(keys, f"made up {n}") == [None]
        assert source.fetches == 1

        source.now += MIN_FETCH_INTERVAL
        self.find(keys, *(f"made up {n}" for n in range(20)))
        assert source.fetches == 2

    def test_a_withdrawn_key_is_soon_refused(self, keys, source, other):
        self.find(keys, "one")
        source.set(other)
        source.now += REFRESH_AFTER + 1

        assert self.find(keys, "one") == [None]

    def test_keys_outlive_an_outage_but_not_forever(self, keys, source):
        self.find(keys, "one")
        source.status = 500
        source.now += REFRESH_AFTER + 1
        assert self.find(keys, "one") != [None]
        source.now += MAX_AGE

        with pytest.raises(KeysUnavailable):
            self.find(keys, "one")

    @pytest.mark.parametrize(
        ("status", "content"),
        [
            (200, b"no json"),
            (200, b"[]"),
            (200, b"{}"),
            (404, b""),
            (200, b"[" * 10_000),
            (302, b""),
            (200, b"x" * 2**21),
        ],
    )
    def test_without_keys_nobody_is_authenticated(self, keys, source, status, content):
        source.status, source.content = status, content

        with pytest.raises(KeysUnavailable):
            self.find(keys, "one")
        assert source.fetches == 1

    def test_cached_keys_do_not_wait_for_a_slow_issuer(self, keys, source, monkeypatch):
        self.find(keys, "one")
        source.now += REFRESH_AFTER + 1
        resume, read = threading.Event(), jwks.fetch

        def slow(where):
            assert resume.wait(10)
            return read(where)

        monkeypatch.setattr(jwks, "fetch", slow)

        async def two():
            first = asyncio.create_task(keys.find("one"))
            await asyncio.sleep(0)
            second = await keys.find("one")
            assert not first.done()
            resume.set()
            return second, await first

        second, first = asyncio.run(two())
        assert first is not None
        assert second is not None

    def test_the_event_loop_is_not_blocked(self, keys, monkeypatch):
        began, resume = threading.Event(), threading.Event()
        read = jwks.fetch

        def slow(source):
            began.set()
            assert resume.wait(10)
            return read(source)

        monkeypatch.setattr(jwks, "fetch", slow)

        async def both():
            lookup = asyncio.create_task(keys.find("one"))
            while not began.is_set():
                await asyncio.sleep(0)
            resume.set()  # by the loop, which is not blocked
            return await lookup

        assert asyncio.run(both()) is not None

    def test_keys_for_other_uses_do_not_count(self, source, keys, signer, other):
        encrypting = {**signer.jwk, "use": "enc"}
        of_another = {**other.jwk, "alg": "PS256"}
        secret = {"kty": "oct", "kid": "three", "k": "c2VjcmV0"}
        source.content = json.dumps({"keys": [encrypting, of_another, secret, 7]}).encode()

        assert self.find(keys, "one", "two", "three") == [None, None, None]

    def test_a_token_without_kid(self, keys, source, signer, other):
        assert self.find(keys, None) != [None]
        source.set(signer, other)
        source.now += REFRESH_AFTER + 1
        assert self.find(keys, None) == [None]


def test_a_file_of_keys_is_read_again(tmp_path, signer, other):
    file = tmp_path / "jwks.json"
    file.write_text(key_set(signer))
    now = 1000.0
    keys = JwksKeys(issuer(jwks=str(file)), str(file), lambda: now)
    assert asyncio.run(keys.find("one")) is not None
    file.write_text(key_set(other))
    now += REFRESH_AFTER + 1

    assert asyncio.run(keys.find("one")) is None
    assert asyncio.run(keys.find("two")) is not None


def test_auth_is_on_with_any_issuer_or_key(file):
    assert not Settings().auth
    assert Settings(issuers=(issuer(jwks=str(file)),)).auth
    assert Settings(stored_keys=True).auth
