// Package online reads and writes a classical model's features in Redis, in weir's own layout or in Feast's.
package online

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/internal/redis"
	"weir/telemetry/monitor/feature"
)

// Store is an online store of features in Redis, in weir's own layout or in Feast's.
//
// In weir's layout an entity is a hash f:{PROJECT}:ENTITY:ID, its fields are the features'
// names with their values as text, and _ts:VIEW is when the view's events happened, in
// milliseconds since 1970. The parts of an id of several keys are joined by ":", with "%"
// and ":" inside them written %25 and %3A.
type Store struct {
	client *redis.Pool
}

// What a connection may take, and a round trip that is not of a request. A read has its request's time for both; a second try
// would come too late for it.
const (
	connectTimeout = time.Second
	callTimeout    = 3 * time.Second
)

// Open connects to a Redis of a URL such as redis://:PASSWORD@HOST:6379/0. A
// server that cannot be reached now is no error.
func Open(address string) (*Store, error) {
	client, err := redis.Open(address, redis.Options{Dial: connectTimeout, RoundTrip: callTimeout})
	if err != nil {
		return nil, fmt.Errorf("the URL of the feature store's Redis: %w", err)
	}
	return &Store{client: client}, nil
}

// Close closes the connections.
func (f *Store) Close() error { return f.client.Close() }

// Reader implements feature.Store.
func (f *Store) Reader(t feature.Target) (feature.Reader, error) {
	var l layout
	switch t.Layout {
	case feature.Plain:
		l = plainLayout{t}
	case feature.Feast:
		l = feastLayout{t}
	default:
		return nil, fmt.Errorf("the feature store's layout %q is unknown", t.Layout)
	}
	r := &reader{client: f.client, layout: l, entities: make([]entityFields, len(t.Entities))}
	for e, entity := range t.Entities {
		r.entities[e] = fieldsOf(t, entity, l)
	}
	return r, nil
}

// layout is how keys and values are written.
type layout interface {
	key(id feature.ID) (string, error)
	field(view string, f feature.Field) string
	time(view string) string // the field of a view's time
	value(t feature.Type, text string) feature.Value
	when(text string) time.Time
}

// entityFields are what is asked of an entity: its features, then its views' times.
type entityFields struct {
	names []any // texts
	types []feature.Type
	views []int // by time
}

func fieldsOf(t feature.Target, e feature.EntityFields, l layout) entityFields {
	var out entityFields
	seen := map[int]bool{}
	for _, f := range e.Fields {
		out.names = append(out.names, l.field(t.Views[f.View], f))
		out.types = append(out.types, f.Type)
		if !seen[f.View] {
			seen[f.View] = true
			out.views = append(out.views, f.View)
		}
	}
	for _, v := range out.views {
		out.names = append(out.names, l.time(t.Views[v]))
	}
	return out
}

type reader struct {
	client   *redis.Pool
	layout   layout
	entities []entityFields
}

// Read implements feature.Reader: one pipeline of HMGETs.
func (r *reader) Read(ctx context.Context, ids []feature.ID, records []feature.Record) error {
	commands, of := make([]redis.Command, 0, len(ids)), make([]int, 0, len(ids))
	for i, id := range ids {
		key, err := r.layout.key(id)
		if err != nil {
			continue // no such entity can be in the store
		}
		names := r.entities[id.Entity].names
		args := make([]any, 1, 1+len(names))
		args[0] = key
		commands, of = append(commands, redis.Command{Name: "HMGET", Args: append(args, names...)}), append(of, i)
	}
	replies, err := r.client.Pipeline(ctx, commands)
	if err != nil {
		return err
	}
	for k, reply := range replies {
		i := of[k]
		switch reply := reply.(type) {
		case []any:
			r.decode(ids[i], reply, records[i])
		case redis.Error:
			if !redis.IsWrongType(reply) {
				return reply
			}
			for slot := range records[i].Values { // the key is no hash
				records[i].Values[slot] = feature.Value{Kind: feature.WrongType}
			}
		default:
			return fmt.Errorf("redis answers HMGET with %T", reply)
		}
	}
	return nil
}

func (r *reader) decode(id feature.ID, reply []any, record feature.Record) {
	e := r.entities[id.Entity]
	for i, raw := range reply {
		bytes, found := raw.([]byte)
		if !found {
			continue
		}
		text := string(bytes)
		switch {
		case i >= len(e.types):
			record.Times[e.views[i-len(e.types)]] = r.layout.when(text)
		case len(text) > feature.MaxEntryBytes:
			record.Values[i] = feature.Value{Kind: feature.WrongType}
		default:
			record.Values[i] = r.layout.value(e.types[i], text)
		}
	}
}

// plainLayout is weir's own.
type plainLayout struct{ target feature.Target }

func (l plainLayout) key(id feature.ID) (string, error) {
	return plainKey(l.target.Project, l.target.Entities[id.Entity].Name, id.Parts), nil
}

func plainKey(project, entity string, parts []string) string {
	if len(parts) > 1 {
		escaped := make([]string, len(parts))
		for i, p := range parts {
			escaped[i] = strings.NewReplacer("%", "%25", ":", "%3A").Replace(p)
		}
		parts = escaped
	}
	return "f:{" + project + "}:" + entity + ":" + strings.Join(parts, ":")
}

func (plainLayout) field(_ string, f feature.Field) string { return f.Name }
func (plainLayout) time(view string) string                { return "_ts:" + view }

func (plainLayout) value(t feature.Type, text string) feature.Value { return feature.Parse(t, text) }

func (plainLayout) when(text string) time.Time {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Row is an entity's values on their way into the store.
type Row struct {
	Parts  []string // of the entity's id
	Values []string // by the fields; "" deletes one
}

// putBatch is how many entities one round trip writes.
const putBatch = 500

// Put writes rows of one view in weir's layout, whose events happened at a time.
func (f *Store) Put(ctx context.Context, t Table, rows []Row, at time.Time) error {
	for len(rows) > 0 {
		n := min(len(rows), putBatch)
		commands := []redis.Command{{Name: "MULTI"}} // values and their time together
		for _, row := range rows[:n] {
			commands = t.put(commands, row, at)
		}
		if err := f.transact(ctx, append(commands, redis.Command{Name: "EXEC"})); err != nil {
			return fmt.Errorf("write features: %w", err)
		}
		rows = rows[n:]
	}
	return nil
}

// put appends what writes a row.
func (t *Table) put(commands []redis.Command, row Row, at time.Time) []redis.Command {
	key := plainKey(t.Project, t.Entity, row.Parts)
	set, gone := []any{key, "_ts:" + t.View, at.UnixMilli()}, []any{key}
	for i, name := range t.Fields {
		if row.Values[i] == "" {
			gone = append(gone, name)
			continue
		}
		set = append(set, name, row.Values[i])
	}
	commands = append(commands, redis.Command{Name: "HSET", Args: set})
	if len(gone) > 1 {
		commands = append(commands, redis.Command{Name: "HDEL", Args: gone})
	}
	if t.TTL > 0 {
		commands = append(commands, redis.Command{Name: "PEXPIRE", Args: []any{key, max(t.TTL.Milliseconds(), 1)}})
	}
	return commands
}

// transact runs a transaction; the first refusal is its error.
func (f *Store) transact(ctx context.Context, commands []redis.Command) error {
	replies, err := f.client.Pipeline(ctx, commands)
	if err != nil {
		return err
	}
	for _, reply := range replies {
		list, ok := reply.([]any) // what EXEC has run
		if !ok {
			list = []any{reply}
		}
		for _, r := range list {
			if refused, ok := r.(redis.Error); ok {
				return refused
			}
		}
	}
	return nil
}

// Table says what Put writes.
type Table struct {
	Project, Entity, View string
	Fields                []string
	TTL                   time.Duration // of an entity, from this write on; 0: for ever
}

// Get is all that the store has of one entity in weir's layout, as it is written there.
func (f *Store) Get(ctx context.Context, project, entity string, parts []string) (map[string]string, error) {
	all, err := redis.StringMap(f.client.Do(ctx, "HGETALL", plainKey(project, entity, parts)))
	if err != nil {
		return nil, fmt.Errorf("read features: %w", err)
	}
	return all, nil
}
