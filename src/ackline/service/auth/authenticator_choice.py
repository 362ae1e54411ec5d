"""Which authenticator the settings ask for."""

from __future__ import annotations

from ackline.core.errors import ConfigError
from ackline.service.auth.authenticator import Authenticator
from ackline.service.auth.bearer import BearerAuth
from ackline.service.auth.loopback import LoopbackAuth
from ackline.service.settings import Settings
from ackline.stores.contract import Store


def authenticator_for(settings: Settings, store: Store) -> Authenticator:
    """The authenticator of the settings; without auth, only a loopback address is served."""
    if settings.auth:
        return BearerAuth(settings, store)
    if settings.loopback:
        return LoopbackAuth()
    raise ConfigError(
        f"{settings.host or 'every address'} can be reached from other machines, and no auth is "
        "configured.\nMake an API key with `ackline token create NAME --tenant T --scope produce` "
        "and start with --stored-keys, or name the issuers of tokens in the file of --config "
        "(docs/guides/auth.md); or bind to 127.0.0.1."
    )
