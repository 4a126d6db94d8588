"""Writes redis.json: what Feast itself puts into Redis, byte by byte, for the tests of
Feast's layout.

    python write.py redis://:PASSWORD@HOST:PORT/DB > redis.json

needs the packages feast[redis] and pandas; made with feast 0.67.0. The database must be
empty, and is emptied again.
"""
import datetime
import json
import sys
import tempfile
import urllib.parse

import feast
import pandas
import redis
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, RepoConfig, ValueType
from feast.types import Bool, Float32, Float64, Int32, Int64, String, UnixTimestamp

address = urllib.parse.urlparse(sys.argv[1])
client = redis.Redis.from_url(sys.argv[1])
assert client.dbsize() == 0, "the database is not empty"
folder = tempfile.mkdtemp()
at = datetime.datetime(2026, 11, 20, 12, 30, 15, 250_000, tzinfo=datetime.timezone.utc)

rows = pandas.DataFrame({
    "driver_id": [1001, -7],
    "rate": [0.25, None], "score32": [1.5, None], "trips": [2**52 + 1, None], "small": [-3, None],
    "active": [True, None], "city": ["Köln", None], "since": [pandas.Timestamp("2026-01-02", tz="UTC"), None],
    "event_timestamp": [at, at],
})
rows["trips"] = rows["trips"].astype("Int64")
rows["small"] = rows["small"].astype("Int32")
pairs = pandas.DataFrame({
    "shop": ["b:1", ""], "driver_id": [1001, 1001], "visits": [3, 4], "event_timestamp": [at, at],
})
rows.iloc[:1].to_parquet(folder + "/rows.parquet")
pairs.to_parquet(folder + "/pairs.parquet")

store = FeatureStore(config=RepoConfig(
    project="fleet", provider="local", registry=folder + "/registry.db", entity_key_serialization_version=3,
    online_store={"type": "redis", "connection_string":
                  f"{address.hostname}:{address.port},db={address.path[1:]},password={address.password}"},
    offline_store={"type": "file"},
))
driver = Entity(name="driver", join_keys=["driver_id"], value_type=ValueType.INT64)
shop = Entity(name="shop", join_keys=["shop"], value_type=ValueType.STRING)
stats = FeatureView(
    name="driver_stats", entities=[driver],
    schema=[Field(name="driver_id", dtype=Int64), Field(name="rate", dtype=Float64), Field(name="score32", dtype=Float32),
            Field(name="trips", dtype=Int64), Field(name="small", dtype=Int32), Field(name="active", dtype=Bool),
            Field(name="city", dtype=String), Field(name="since", dtype=UnixTimestamp)],
    source=FileSource(path=folder + "/rows.parquet", timestamp_field="event_timestamp"))
visits = FeatureView(
    name="visits", entities=[shop, driver],
    schema=[Field(name="driver_id", dtype=Int64), Field(name="shop", dtype=String), Field(name="visits", dtype=Int64)],
    source=FileSource(path=folder + "/pairs.parquet", timestamp_field="event_timestamp"))
store.apply([driver, shop, stats, visits])
store.write_to_online_store("driver_stats", rows)
store.write_to_online_store("visits", pairs)

dump = {
    "feast": feast.__version__,
    "entities": {key.hex(): {name.hex(): value.hex() for name, value in client.hgetall(key).items()} for key in sorted(client.keys())},
}
client.flushdb()
json.dump(dump, sys.stdout, indent=1, sort_keys=True)
print()
