package feature

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"weir/router"
)

// maxCells bounds rows times features of one request.
const maxCells = 1 << 22

// Join resolves the features of requests for one version of a model. It is safe for
// concurrent use.
type Join struct {
	manifest *Manifest
	matrix   string // the model's input that holds all features, which a request may send as it is; "": none
	online   *Online
	reader   Reader                // nil where no feature is stored
	cache    recordCache           // nil: nothing is remembered
	index    map[string]int        // features by name
	keys     map[string]entityPart // entities' keys by the input's name
	violated []atomic.Int64        // by feature: values outside of its range
	counts   []atomic.Int64        // by view, then outcome; what is not stored counts under the last
}

// entityPart is a part of an entity's id.
type entityPart struct{ entity, part int }

// cachedRecord is a record as the cache holds it; it is not changed.
type cachedRecord struct {
	record Record
	readAt time.Time
}

// recordCache is an LRU cache by the entity's id. It is an interface so that packages which
// import this one do not compile the cache's generic methods.
type recordCache interface {
	Get(id string) (*cachedRecord, bool)
	Add(id string, r *cachedRecord) (evicted bool)
	Len() int
}

// NewJoin prepares the join of a manifest. online may be nil where no feature is stored.
func NewJoin(m *Manifest, online *Online) (*Join, error) {
	j := &Join{
		manifest: m, online: online, index: map[string]int{}, keys: map[string]entityPart{},
		counts: make([]atomic.Int64, (len(m.Views)+1)*int(outcomes)), violated: make([]atomic.Int64, len(m.Features)),
	}
	for i := range m.Features {
		j.index[m.Features[i].Name] = i
	}
	target := Target{Project: m.Project, Layout: m.Layout, Views: m.Views}
	for e := range m.Entities {
		entity := &m.Entities[e]
		for part, k := range entity.Keys {
			j.keys[k.Input] = entityPart{e, part}
		}
		target.Entities = append(target.Entities, EntityFields{entity.Name, entity.Keys, entity.fields})
	}
	if len(m.Views) == 0 {
		return j, nil
	}
	if online == nil {
		return nil, errors.New("the manifest has features of an online store, and none is configured: set --feature-redis")
	}
	var err error
	if j.reader, err = online.store.Reader(target); err != nil {
		return nil, err
	}
	if m.Cache.Entries > 0 && m.Cache.Stale > 0 {
		if j.cache, err = lru.New[string, *cachedRecord](m.Cache.Entries); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// Counts are the values so far by view and outcome; "" is the view of what is not
// stored.
func (j *Join) Counts(each func(view, outcome string, n int64)) {
	for i := range j.counts {
		view := ""
		if v := i / int(outcomes); v < len(j.manifest.Views) {
			view = j.manifest.Views[v]
		}
		each(view, outcomeNames[i%int(outcomes)], j.counts[i].Load())
	}
}

// Violations are the values so far that were outside of their feature's range.
func (j *Join) Violations(each func(feature string, n int64)) {
	for f := range j.violated {
		if n := j.violated[f].Load(); n > 0 {
			each(j.manifest.Features[f].Name, n)
		}
	}
}

// Cached is how many entities are remembered.
func (j *Join) Cached() int {
	if j.cache == nil {
		return 0
	}
	return j.cache.Len()
}

// Resolve fills r with the features of p's rows.
func (j *Join) Resolve(ctx context.Context, p *router.Prediction, r *Rows) error {
	s := resolution{Join: j, rows: r, now: time.Now(), doneBy: p.DoneBy}
	if err := s.requested(p.Inputs); err != nil {
		return err
	}
	if j.reader != nil {
		s.stored(ctx)
	}
	err := s.finish()
	j.count(r)
	return err
}

func (j *Join) count(r *Rows) {
	m := j.manifest
	var perView [outcomes]int64
	// Features are few views; their cells are added per feature, so that the shared
	// counters are touched once per feature and outcome.
	for f := range m.Features {
		clear(perView[:])
		for row := range r.n {
			perView[r.Outcome(row, f)]++
		}
		if n := r.violated[f]; n > 0 {
			j.violated[f].Add(int64(n))
		}
		view := len(m.Views)
		if m.Features[f].Source == FromStore {
			view = m.Features[f].View
		}
		for o, n := range perView {
			if n > 0 {
				j.counts[view*int(outcomes)+o].Add(n)
			}
		}
	}
}
