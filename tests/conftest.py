"""What all tests share."""

import pytest
from support.certificates import Certificates, make_certificates
from support.freed import freed

__all__ = ["freed"]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))
