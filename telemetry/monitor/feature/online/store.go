// Package online reads and writes a classical model's features in Redis, in weir's own layout or in Feast's.
package online

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"weir/telemetry/monitor/feature"
)

// Store is an online store of features in Redis, in weir's own layout or in Feast's.
//
// In weir's layout an entity is a hash f:{PROJECT}:ENTITY:ID, its fields are the features'
// names with their values as text, and _ts:VIEW is when the view's events happened, in
// milliseconds since 1970. The parts of an id of several keys are joined by ":", with "%"
// and ":" inside them written %25 and %3A.
type Store struct {
	client *redis.Client
}

// connectTimeout bounds the dialling that a read waits for; the read itself has its
// request's time.
const connectTimeout = time.Second

// Open connects to a Redis of a URL such as redis://:PASSWORD@HOST:6379/0. A
// server that cannot be reached now is no error.
func Open(address string) (*Store, error) {
	o, err := redis.ParseURL(address)
	if err != nil {
		if failed := (*url.Error)(nil); errors.As(err, &failed) { // would repeat the text, password and all
			err = failed.Err
		}
		return nil, fmt.Errorf("the URL of the feature store's Redis: %w", err)
	}
	// A request's deadline is that of its read; a second try would come too late for it.
	o.DialTimeout, o.DialerRetries, o.MaxRetries = connectTimeout, 1, -1
	o.ContextTimeoutEnabled = true
	o.PoolTimeout = connectTimeout
	o.DisableIdentity = true // one round trip less per connection
	logging.Disable()        // what the library would write to standard error, the caller hears
	return &Store{client: redis.NewClient(o)}, nil
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
	names []string
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
	client   *redis.Client
	layout   layout
	entities []entityFields
}

// Read implements feature.Reader: one pipeline of HMGETs.
func (r *reader) Read(ctx context.Context, ids []feature.ID, records []feature.Record) error {
	pipeline := r.client.Pipeline()
	replies := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		key, err := r.layout.key(id)
		if err != nil {
			continue // no such entity can be in the store
		}
		replies[i] = pipeline.HMGet(ctx, key, r.entities[id.Entity].names...)
	}
	if pipeline.Len() == 0 {
		return nil
	}
	if _, err := pipeline.Exec(ctx); err != nil && !isWrongType(err) {
		return err
	}
	for i, reply := range replies {
		if reply == nil {
			continue
		}
		switch err := reply.Err(); {
		case err == nil:
			r.decode(ids[i], reply.Val(), records[i])
		case isWrongType(err): // the key is no hash
			for slot := range records[i].Values {
				records[i].Values[slot] = feature.Value{Kind: feature.WrongType}
			}
		default:
			return err
		}
	}
	return nil
}

// isWrongType reports that Redis holds something else than a hash under a key.
func isWrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

func (r *reader) decode(id feature.ID, reply []any, record feature.Record) {
	e := r.entities[id.Entity]
	for i, raw := range reply {
		text, found := raw.(string)
		if !found {
			continue
		}
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
		pipeline := f.client.TxPipeline() // values and their time together
		for _, row := range rows[:n] {
			key := plainKey(t.Project, t.Entity, row.Parts)
			set := []any{"_ts:" + t.View, at.UnixMilli()}
			var gone []string
			for i, name := range t.Fields {
				if row.Values[i] == "" {
					gone = append(gone, name)
					continue
				}
				set = append(set, name, row.Values[i])
			}
			pipeline.HSet(ctx, key, set...)
			if len(gone) > 0 {
				pipeline.HDel(ctx, key, gone...)
			}
			if t.TTL > 0 {
				pipeline.Expire(ctx, key, t.TTL)
			}
		}
		if _, err := pipeline.Exec(ctx); err != nil {
			return fmt.Errorf("write features: %w", err)
		}
		rows = rows[n:]
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
	all, err := f.client.HGetAll(ctx, plainKey(project, entity, parts)).Result()
	if err != nil {
		return nil, fmt.Errorf("read features: %w", err)
	}
	return all, nil
}
