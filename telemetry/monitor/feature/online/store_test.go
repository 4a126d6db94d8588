package online

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/telemetry/monitor/feature"
)

func testFeatures(t testing.TB) *Store {
	t.Helper()
	f, err := Open(reference.Redis.Get(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// readAll reads ids with a target's fields.
func readAll(t testing.TB, f *Store, target feature.Target, ids ...feature.ID) []feature.Record {
	t.Helper()
	r, err := f.Reader(target)
	if err != nil {
		t.Fatal(err)
	}
	records := make([]feature.Record, len(ids))
	for i, id := range ids {
		records[i] = feature.Record{
			Values: make([]feature.Value, len(target.Entities[id.Entity].Fields)), Times: make([]time.Time, len(target.Views)),
		}
	}
	if err := r.Read(t.Context(), ids, records); err != nil {
		t.Fatal(err)
	}
	return records
}

func testTarget(l feature.Layout) feature.Target {
	return feature.Target{
		Project: "weir-test-" + rand.Text(), Layout: l, Views: []string{"profile", "orders"},
		Entities: []feature.EntityFields{
			{Name: "user", Keys: []feature.Key{{Input: "user_id", Type: feature.Integer}}, Fields: []feature.Field{
				{View: 0, Name: "age", Type: feature.Integer}, {View: 0, Name: "city", Type: feature.String},
				{View: 1, Name: "spent", Type: feature.Number}, {View: 0, Name: "active", Type: feature.Boolean},
			}},
			{Name: "visit", Keys: []feature.Key{{Input: "shop", Type: feature.String}, {Input: "user", Type: feature.String}},
				Fields: []feature.Field{{View: 1, Name: "visits", Type: feature.Integer}}},
		},
	}
}

// What Put writes a reader reads, with the views' own times; entities that the store
// lacks are missing values and no error.
func TestFeaturesPlainLayout(t *testing.T) {
	f, target := testFeatures(t), testTarget(feature.Plain)
	early, late := time.UnixMilli(1_760_000_000_123), time.UnixMilli(1_770_000_000_456)
	put := func(entity, view string, at time.Time, fields []string, row Row) {
		t.Helper()
		if err := f.Put(t.Context(), Table{target.Project, entity, view, fields, time.Minute}, []Row{row}, at); err != nil {
			t.Fatal(err)
		}
	}
	put("user", "profile", early, []string{"age", "city", "active"}, Row{[]string{"7"}, []string{"41", "Köln", "true"}})
	put("user", "orders", late, []string{"spent"}, Row{[]string{"7"}, []string{"12.5"}})
	put("visit", "orders", late, []string{"visits"}, Row{[]string{"a:b", "c"}, []string{"3"}})
	put("visit", "orders", late, []string{"visits"}, Row{[]string{"a", "b:c"}, []string{"4"}})
	got := readAll(t, f, target, feature.ID{Entity: 0, Parts: []string{"7"}}, feature.ID{Entity: 0, Parts: []string{"8"}},
		feature.ID{Entity: 1, Parts: []string{"a:b", "c"}}, feature.ID{Entity: 1, Parts: []string{"a", "b:c"}})
	want := []feature.Value{feature.IntOf(41), feature.TextOf("Köln"), feature.FloatOf(12.5), feature.BoolOf(true)}
	if fmt.Sprint(got[0].Values) != fmt.Sprint(want) || !got[0].Times[0].Equal(early) || !got[0].Times[1].Equal(late) {
		t.Errorf("user 7 is %v", got[0])
	}
	for i, v := range got[1].Values {
		if v.Kind != feature.Missing {
			t.Errorf("field %d of a user that is not there is %v", i, v)
		}
	}
	if a, b := got[2].Values[0].Int(), got[3].Values[0].Int(); a != 3 || b != 4 {
		t.Errorf("visits of (a:b, c) and (a, b:c) are %d and %d", a, b)
	}
	put("user", "profile", late, []string{"age", "city", "active"}, Row{[]string{"7"}, []string{"42", "", "false"}})
	if again := readAll(t, f, target, feature.ID{Entity: 0, Parts: []string{"7"}})[0]; again.Values[0].Int() != 42 || again.Values[1].Present() {
		t.Errorf("written again: %v", again)
	}
}

// A value that is not of its feature's type is no value, and spoils no other; neither
// does a key that holds no hash.
func TestFeaturesWrongTypes(t *testing.T) {
	f, target := testFeatures(t), testTarget(feature.Plain)
	ctx := t.Context()
	key := plainKey(target.Project, "user", []string{"7"})
	do := func(name string, args ...any) {
		t.Helper()
		if _, err := f.client.Do(ctx, name, args...); err != nil {
			t.Fatal(err)
		}
	}
	do("HSET", key, "age", "old", "city", strings.Repeat("x", feature.MaxEntryBytes+1), "spent", "1e3", "active", "2", "_ts:profile", "soon")
	do("SET", plainKey(target.Project, "user", []string{"8"}), "no hash", "EX", 60)
	do("EXPIRE", key, 60)
	got := readAll(t, f, target, feature.ID{Entity: 0, Parts: []string{"7"}}, feature.ID{Entity: 0, Parts: []string{"8"}})
	for i, want := range []feature.Kind{feature.WrongType, feature.WrongType, feature.Float, feature.WrongType} {
		if k := got[0].Values[i].Kind; k != want {
			t.Errorf("field %d is of kind %v, want %v", i, k, want)
		}
		if k := got[1].Values[i].Kind; k != feature.WrongType {
			t.Errorf("field %d of a string's key is of kind %v", i, k)
		}
	}
	if !got[0].Times[0].IsZero() {
		t.Errorf("_ts:profile is %v", got[0].Times[0])
	}
}

// feastDump is testdata/feast/redis.json: what Feast wrote.
type feastDump struct {
	Entities map[string]map[string]string
}

// What Feast wrote into Redis, byte by byte, reads as what it was given: keys of one and
// of two parts, every scalar type, missing values, the event's time.
func TestFeaturesOfFeast(t *testing.T) {
	f := testFeatures(t)
	data, err := os.ReadFile("testdata/feast/redis.json")
	if err != nil {
		t.Fatal(err)
	}
	var dump feastDump
	if err := json.Unmarshal(data, &dump); err != nil {
		t.Fatal(err)
	}
	// Other tests share the server: the project ends the key, and is of this test alone.
	project := "fleet-" + rand.Text()
	for key, fields := range dump.Entities {
		name := strings.TrimSuffix(unhex(t, key), "fleet") + project
		for field, value := range fields {
			if _, err := f.client.Do(t.Context(), "HSET", name, unhex(t, field), unhex(t, value)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.client.Do(t.Context(), "EXPIRE", name, 60); err != nil {
			t.Fatal(err)
		}
	}
	target := feature.Target{Project: project, Layout: feature.Feast, Views: []string{"driver_stats", "visits"}, Entities: []feature.EntityFields{
		{Name: "driver", Keys: []feature.Key{{Input: "driver_id", Type: feature.Integer}}, Fields: []feature.Field{
			{Name: "rate", Type: feature.Number}, {Name: "score32", Type: feature.Number}, {Name: "trips", Type: feature.Integer},
			{Name: "small", Type: feature.Integer}, {Name: "active", Type: feature.Boolean}, {Name: "city", Type: feature.String},
			{Name: "since", Type: feature.Integer}, {Name: "city", Type: feature.Number}, {Name: "never", Type: feature.Number},
		}},
		{Name: "shop", Keys: []feature.Key{{Input: "shop", Type: feature.String}, {Input: "driver_id", Type: feature.Integer}},
			Fields: []feature.Field{{View: 1, Name: "visits", Type: feature.Integer}}},
	}}
	got := readAll(t, f, target, feature.ID{Entity: 0, Parts: []string{"1001"}}, feature.ID{Entity: 0, Parts: []string{"-7"}},
		feature.ID{Entity: 1, Parts: []string{"b:1", "1001"}}, feature.ID{Entity: 1, Parts: []string{"", "1001"}})
	want := []feature.Value{
		feature.FloatOf(0.25), feature.FloatOf(1.5), feature.IntOf(1<<52 + 1), feature.IntOf(-3), feature.BoolOf(true),
		feature.TextOf("Köln"), feature.IntOf(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC).Unix()),
		{Kind: feature.WrongType}, {},
	}
	if fmt.Sprintf("%#v", got[0].Values) != fmt.Sprintf("%#v", want) {
		t.Errorf("driver 1001 is %#v, want %#v", got[0].Values, want)
	}
	if at := time.Date(2026, 11, 20, 12, 30, 15, 250_000_000, time.UTC); !got[0].Times[0].Equal(at) || !got[2].Times[1].Equal(at) {
		t.Errorf("the events are of %v and %v, want %v", got[0].Times[0], got[2].Times[1], at)
	}
	for i, v := range got[1].Values {
		if v.Kind != feature.Missing {
			t.Errorf("field %d of the driver without values is %#v", i, v)
		}
	}
	if a, b := got[2].Values[0].Int(), got[3].Values[0].Int(); a != 3 || b != 4 {
		t.Errorf("visits are %d and %d, want 3 and 4", a, b)
	}
}

func unhex(t *testing.T, text string) string {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The hash of field names is that of the package mmh3, which Feast uses.
func TestMurmur3(t *testing.T) {
	for text, want := range map[string]uint32{"": 0, "view:feature": 0x7651117f, "driver_stats:rate": 0x2f77dc80} {
		if got := murmur3([]byte(text)); got != want {
			t.Errorf("%q: %#x, want %#x", text, got, want)
		}
	}
}

// Whatever bytes a store holds, reading them does not fail, and numbers stay numbers.
func FuzzFeastValue(f *testing.F) {
	for _, s := range []string{"208080808080808010", "350000c03f", "29000000000000d03f", "12054bc3b66c6e", "", "4080808080808080808001"} {
		b, _ := hex.DecodeString(s)
		f.Add(b, uint8(0))
	}
	f.Fuzz(func(t *testing.T, data []byte, kind uint8) {
		typ := feature.Type(kind % 4)
		if v := (feastLayout{}).value(typ, string(data)); v.Present() && typ == feature.Number && math.IsNaN(v.Float()) {
			t.Errorf("%x is NaN and present", data)
		}
		_ = feastLayout{}.when(string(data))
	})
}

// An open port that never answers costs a read its deadline and no more.
func TestFeaturesDeadline(t *testing.T) {
	address, stop := stalled(t)
	defer stop()
	f, err := Open("redis://" + address + "/0")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := f.Reader(testTarget(feature.Plain))
	if err != nil {
		t.Fatal(err)
	}
	least := time.Hour // a busy machine may add to most reads, but not to all of them
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		began := time.Now()
		err := r.Read(ctx, []feature.ID{{Entity: 0, Parts: []string{"7"}}}, []feature.Record{{Values: make([]feature.Value, 4), Times: make([]time.Time, 2)}})
		least = min(least, time.Since(began))
		cancel()
		if err == nil {
			t.Fatal("a server that never answers was read")
		}
	}
	if least > connectTimeout/2 {
		t.Errorf("each read of 5 ms took %v and more", least)
	}
}

// stalled listens and never answers.
func stalled(t *testing.T) (address string, stop func()) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			})
		}
	})
	return l.Addr().String(), func() {
		l.Close()
	}
}
