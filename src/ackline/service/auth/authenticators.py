"""Which authenticator the settings ask for."""

from __future__ import annotations

from ackline.errors import ConfigError
from ackline.service.auth.base import Authenticator
from ackline.service.auth.bearer import Bearer
from ackline.service.auth.loopback import Loopback
from ackline.service.settings import Settings
from ackline.stores.base import Store


def authenticator_for(settings: Settings, store: Store) -> Authenticator:
    """The authenticator of the settings; without auth, only a loopback address is served."""
    if settings.auth:
        return Bearer(settings, store)
    if settings.loopback:
        return Loopback()
    raise ConfigError(
        f"{settings.host or 'every address'} can be reached from other machines, and no auth is "
        "configured.\nMake an API key with `ackline token create NAME --tenant T --scope produce` "
        "and start with --stored-keys, or name the issuers of tokens in the file of --config "
        "(docs/guides/auth.md); or bind to 127.0.0.1."
    )
