package feature

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"weir/internal/inference"
	"weir/internal/tensor"
)

// resolution is the resolution of one request.
type resolution struct {
	*Join
	rows   *Rows
	now    time.Time
	doneBy time.Time
	ids    [][]*tensor.Tensor // by entity and part; nil where the request has none
}

// requested takes what the request has, and constants.
func (s *resolution) requested(inputs []tensor.Tensor) error {
	n, err := s.length(inputs)
	if err != nil {
		return err
	}
	m := s.manifest
	s.rows.reset(m, n)
	for i := range s.rows.outcomes {
		s.rows.outcomes[i] = Absent
	}
	s.ids = make([][]*tensor.Tensor, len(m.Entities))
	for e := range m.Entities {
		s.ids[e] = make([]*tensor.Tensor, len(m.Entities[e].Keys))
	}
	for i := range inputs {
		if err := s.input(&inputs[i]); err != nil {
			return err
		}
	}
	for f := range m.Features {
		if m.Features[f].Source == FromConstant {
			for row := range n {
				s.set(row, f, m.Features[f].Constant, Constant)
			}
		}
	}
	return nil
}

// length is the number of rows that all inputs agree on.
func (s *resolution) length(inputs []tensor.Tensor) (int, error) {
	if len(inputs) == 0 {
		return 0, fmt.Errorf("%w: the request has no inputs", inference.ErrInvalid)
	}
	n := inputs[0].Rows()
	for i := range inputs {
		if err := wellFormed(&inputs[i]); err != nil {
			return 0, err
		}
		if inputs[i].Rows() != n {
			return 0, fmt.Errorf("%w: input %q has %d rows, and %q has %d",
				inference.ErrInvalid, inputs[i].Name, inputs[i].Rows(), inputs[0].Name, n)
		}
	}
	if limit := int64(maxCells / len(s.manifest.Features)); n > limit {
		return 0, fmt.Errorf("%w: %d rows; at most %d have room for %d features", inference.ErrInvalid, n, limit, len(s.manifest.Features))
	}
	return int(n), nil
}

func (s *resolution) input(t *tensor.Tensor) error {
	if t.Name == s.matrix && s.matrix != "" {
		return s.whole(t)
	}
	f, isFeature := s.index[t.Name]
	key, isKey := s.keys[t.Name]
	if !isFeature && !isKey {
		return fmt.Errorf("%w: input %.64q is no feature of the model, nor an entity's key", inference.ErrInvalid, t.Name)
	}
	if len(t.Shape) > 2 || len(t.Shape) == 2 && t.Shape[1] != 1 {
		return fmt.Errorf("%w: input %q has shape %v; a feature is of shape [rows] or [rows, 1]", inference.ErrInvalid, t.Name, t.Shape)
	}
	if isKey {
		return s.key(t, key)
	}
	feature := &s.manifest.Features[f]
	if feature.Source == FromConstant {
		return fmt.Errorf("%w: input %q is a constant of the model; leave it out", inference.ErrInvalid, t.Name)
	}
	return s.column(t, f, 0, 1)
}

func (s *resolution) key(t *tensor.Tensor, at entityPart) error {
	want := s.manifest.Entities[at.entity].Keys[at.part].Type
	for row := range s.rows.n {
		if v, err := element(t, row); err == nil && v.Kind == Missing {
			return fmt.Errorf("%w: input %q has no value in row %d; it names an entity: send a value, or leave the input out", inference.ErrInvalid, t.Name, row)
		}
	}
	whole := isInteger(t.Type)
	if whole != (want == Integer) || !whole && t.Type != tensor.Bytes {
		return fmt.Errorf("%w: input %q is %v; the key is of type %v", inference.ErrInvalid, t.Name, t.Type, want)
	}
	s.ids[at.entity][at.part] = t
	return nil
}

// whole takes the model's own matrix of all features.
func (s *resolution) whole(t *tensor.Tensor) error {
	width := len(s.manifest.Features)
	if len(t.Shape) != 2 || t.Shape[1] != int64(width) {
		return fmt.Errorf("%w: input %q has shape %v; it must be [rows, %d]", inference.ErrInvalid, t.Name, t.Shape, width)
	}
	for f := range width {
		if s.manifest.Features[f].Source == FromConstant {
			continue
		}
		if err := s.column(t, f, f, width); err != nil {
			return err
		}
	}
	return nil
}

// column takes feature f from every width-th element of t, from the first on.
func (s *resolution) column(t *tensor.Tensor, f, first, width int) error {
	feature := &s.manifest.Features[f]
	for row := range s.rows.n {
		v, err := element(t, first+row*width)
		if err != nil {
			return fmt.Errorf("%w: %w", inference.ErrInvalid, err)
		}
		if v.Kind == Missing {
			continue
		}
		// A number stands for a category by its index, as training libraries have it.
		if feature.Type == String && v.Kind != Text && feature.Categories != nil {
			v = feature.category(v)
		}
		if v = v.Convert(feature.Type); v.Kind == WrongType {
			return fmt.Errorf("%w: feature %q of row %d is not of type %v", inference.ErrInvalid, feature.Name, row, feature.Type)
		}
		s.set(row, f, v, Requested)
	}
	return nil
}

func (s *resolution) set(row, f int, v Value, o Outcome) {
	at := row*len(s.manifest.Features) + f
	s.rows.values[at], s.rows.outcomes[at] = v, o
}

// neededEntity is an entity that some rows of the request need.
type neededEntity struct {
	entity int
	id     string // for maps: entity and parts
	parts  []string
	rows   []int
	found  *cachedRecord
	reason Outcome // where nothing was found
}

// stored takes what is left from the cache and the store.
func (s *resolution) stored(ctx context.Context) {
	var list []*neededEntity
	for e := range s.manifest.Entities {
		list = s.entities(e, list)
	}
	var ask []*neededEntity
	outcome := make([]Outcome, len(list))
	for i, w := range list {
		outcome[i] = Cached
		if w.found = s.remembered(w.id, s.manifest.Cache.Fresh); w.found == nil {
			outcome[i] = Stored
			ask = append(ask, w)
		}
	}
	if len(ask) > 0 {
		s.ask(ctx, ask)
	}
	for i, w := range list {
		if w.found != nil && w.reason == 0 {
			s.fill(w, outcome[i])
			continue
		}
		if w.found = s.remembered(w.id, s.manifest.Cache.Stale); w.found != nil {
			s.fill(w, Outdated)
			continue
		}
		s.mark(w)
	}
}

// entities finds whom the rows are about, each once, as far as a row lacks a feature
// of it.
func (s *resolution) entities(e int, list []*neededEntity) []*neededEntity {
	entity := &s.manifest.Entities[e]
	known := map[string]*neededEntity{}
	named := true
	for _, t := range s.ids[e] {
		named = named && t != nil
	}
	for row := range s.rows.n {
		if !s.lacks(entity, row) {
			continue
		}
		if !named {
			for _, f := range entity.members {
				if at := row*len(s.manifest.Features) + f; s.rows.outcomes[at] == Absent {
					s.rows.outcomes[at] = NoEntity
				}
			}
			continue
		}
		parts := make([]string, len(entity.Keys))
		name := strconv.AppendInt(nil, int64(e), 10)
		for i, t := range s.ids[e] {
			parts[i], _ = t.Text(row) // key saw to the type
			name = append(strconv.AppendInt(append(name, ':'), int64(len(parts[i])), 10), ':')
			name = append(name, parts[i]...)
		}
		id := string(name)
		w := known[id]
		if w == nil {
			w = &neededEntity{entity: e, id: id, parts: parts}
			known[id] = w
			list = append(list, w)
		}
		w.rows = append(w.rows, row)
	}
	return list
}

func (s *resolution) lacks(entity *Entity, row int) bool {
	for _, f := range entity.members {
		if s.rows.Outcome(row, f) != Requested {
			return true
		}
	}
	return false
}

// remembered is an entity of the cache that was read within the last while.
func (s *resolution) remembered(id string, within time.Duration) *cachedRecord {
	if s.cache == nil || within <= 0 {
		return nil
	}
	if r, known := s.cache.Get(id); known && s.now.Sub(r.readAt) <= within {
		return r
	}
	return nil
}

// ask reads entities in one round trip.
func (s *resolution) ask(ctx context.Context, ask []*neededEntity) {
	q := query{timeout: s.manifest.Timeout, doneBy: s.doneBy, ids: make([]ID, len(ask)), records: make([]Record, len(ask))}
	for i, w := range ask {
		q.ids[i] = ID{w.entity, w.parts}
		q.records[i] = Record{
			Values: make([]Value, len(s.manifest.Entities[w.entity].fields)), Times: make([]time.Time, len(s.manifest.Views)),
		}
	}
	err := s.online.read(ctx, s.reader, q)
	readAt := time.Now()
	for i, w := range ask {
		switch {
		case err == nil:
			w.found = &cachedRecord{q.records[i], readAt}
			if s.cache != nil {
				s.cache.Add(w.id, w.found)
			}
		case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, errNoTime):
			w.reason = Timeout
		default:
			w.reason = Unavailable
		}
	}
}

// fill gives an entity's values to the rows that are about it.
func (s *resolution) fill(w *neededEntity, o Outcome) {
	entity := &s.manifest.Entities[w.entity]
	for slot, f := range entity.members {
		feature := &s.manifest.Features[f]
		v, outcome := w.found.record.Values[slot], o
		at := w.found.record.Times[feature.View]
		switch {
		case v.Kind == WrongType:
			v, outcome = Value{}, Mistyped
		case !v.Present():
			outcome = Absent
		case feature.MaxStaleness > 0 && (at.IsZero() || s.now.Sub(at) > feature.MaxStaleness):
			v, outcome = Value{}, TooOld
		}
		for _, row := range w.rows {
			if s.rows.Outcome(row, f) != Requested {
				s.set(row, f, v, outcome)
			}
		}
	}
}

// mark notes why an entity's features are missing.
func (s *resolution) mark(w *neededEntity) {
	for _, f := range s.manifest.Entities[w.entity].members {
		for _, row := range w.rows {
			if s.rows.Outcome(row, f) != Requested {
				s.set(row, f, Value{}, w.reason)
			}
		}
	}
}

// finish checks ranges and lets defaults stand in.
func (s *resolution) finish() error {
	for f := range s.manifest.Features {
		feature := &s.manifest.Features[f]
		for row := range s.rows.n {
			at := row*len(s.manifest.Features) + f
			v := s.rows.values[at]
			if v.Present() && !feature.allows(v) {
				s.rows.violated[f]++
				if feature.OnRange == Reject {
					return feature.rejects(v, row)
				}
				if feature.OnRange == Clip {
					v = feature.clip(v)
					s.rows.values[at] = v
					if !v.Present() {
						s.rows.outcomes[at] = Unknown
					}
				}
			}
			if v.Present() {
				continue
			}
			if feature.Required {
				return feature.lost(row, s.rows.outcomes[at])
			}
			s.rows.values[at] = feature.Default
		}
	}
	return nil
}
