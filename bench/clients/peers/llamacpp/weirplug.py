def pytest_collection_modifyitems(items):
    import utils
    utils.ServerPreset.load_all = staticmethod(lambda: None)


def pytest_configure(config):
    import os
    os.makedirs("tmp", exist_ok=True)
