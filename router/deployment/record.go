// Package deployment says which version of a model all servers on one store shall answer with, and what each of them has
// done about it. What is wanted is a Record in the store; each server follows it by itself (Follower) and tells what it sees
// (Observation). No server leads: a change of a record is a compare-and-set in the store.
package deployment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"weir/router/rollout"
)

// Revision is a version of a model as it was asked for.
type Revision struct {
	Generation int64             `json:"generation"`          // of the record when it was first asked for
	Version    string            `json:"version"`             // label, name in the models folder, or name on a hub
	Digest     string            `json:"digest,omitempty"`    // what the first server to find it found; empty: none has yet
	Label      string            `json:"label"`               // tells the model's versions apart, in requests MODEL@LABEL too
	Resources  map[string]string `json:"resources,omitempty"` // settings of the model, by the configuration's keys
	// NeedsBytes is the memory that the first server which had its files has forecast; 0: none has yet.
	NeedsBytes int64 `json:"needs_bytes,omitempty"`
}

// same reports whether two revisions were asked for with the same words.
func (r *Revision) same(o *Revision) bool {
	return r.Version == o.Version && maps.Equal(r.Resources, o.Resources)
}

// Warm says which versions stay in memory beside the one that answers, so that they can take over at once.
type Warm struct {
	Previous int      `json:"previous,omitempty"` // versions that answered before, the last ones
	Versions []string `json:"versions,omitempty"` // and these, by the version of a revision
}

// Spec is what somebody asks for.
type Spec struct {
	Model     string
	Version   string
	Resources map[string]string
	Policy    *rollout.Plan // how the version takes over; nil: as soon as it is in memory. Model, versions and ID are not said
	Unchecked bool          // without a Policy it takes over without the check of its answers
	Warm      Warm
	Placement *Placement // nil: every server that can has a part
}

// Record is what all servers shall do for a model.
type Record struct {
	Model  string        `json:"model"`
	Wanted Revision      `json:"wanted"`
	Policy *rollout.Plan `json:"policy,omitempty"`
	Warm   Warm          `json:"warm"`
	// Placement says where it runs; nil: on every server that can.
	Placement *Placement `json:"placement,omitempty"`

	// Unchecked lets Wanted take over at once without the check of its answers.
	Unchecked bool `json:"unchecked,omitempty"`
	// Rollout is the id of the rollout that brings Wanted in; empty: it takes over at once.
	Rollout string `json:"rollout,omitempty"`
	// Progress is where that rollout stands on all servers; nil: it begins.
	Progress *Progress `json:"progress,omitempty"`
	// Settled is the version that has answered last, on any server; nil: none of the record has yet.
	Settled *Revision `json:"settled,omitempty"`
	// History are the versions that were Settled before, the last one first.
	History []Revision `json:"history,omitempty"`

	Generation int64     `json:"generation"` // rises with what is asked for, and over a deletion
	Created    time.Time `json:"created"`
	Changed    time.Time `json:"changed"`
	By         string    `json:"by"`
}

// Bounds of records.
const (
	// MaxRecords is how many deployments a store keeps.
	MaxRecords = 10_000
	// maxHistory is how many versions a record remembers.
	maxHistory = 10
	// MaxWarm is how many versions may be kept warm.
	MaxWarm = 8
)

// What a change of a record may come to.
var (
	ErrNone   = errors.New("there is no deployment of this model")
	ErrAtMost = fmt.Errorf("there are %d deployments, as many as a store keeps; delete one", MaxRecords)
)

// UncheckedPolicy is the word for a version that takes over at once, without the check of its answers.
const UncheckedPolicy = "unchecked"

// Actor is who starts rollouts and moves names for deployments, in logs and audit entries.
const Actor = "deployment"

// RolloutPrefix begins the ids of rollouts that belong to deployments.
const RolloutPrefix = "deploy-"

// IsRollout reports whether an id is that of a deployment's rollout, not of an operator's.
func IsRollout(id string) bool { return strings.HasPrefix(id, RolloutPrefix) }

// Apply gives the record that a spec makes of the one that is there, nil for none; it is the same where nothing is asked for
// that is not wanted already. id names the rollout that may follow.
func Apply(old *Record, s Spec, id, by string, now time.Time) Record {
	if old == nil {
		old = &Record{Model: s.Model, Created: now}
	}
	wanted := Revision{Version: s.Version, Resources: s.Resources}
	if old.Generation > 0 && old.Wanted.same(&wanted) && old.samePolicy(&s) && sameWarm(&old.Warm, &s.Warm) && reflect.DeepEqual(old.Placement, s.Placement) {
		return *old
	}
	next := *old
	next.Generation, next.Changed, next.By, next.Policy, next.Unchecked, next.Warm = old.Generation+1, now, by, s.Policy, s.Unchecked, s.Warm
	next.Placement = s.Placement
	if old.Generation > 0 && old.Wanted.same(&wanted) && old.samePolicy(&s) {
		return next // its version is on its way, or there; only what stays warm changes, or where it runs
	}
	next.Wanted = next.revision(wanted)
	next.Rollout, next.Progress = "", nil
	if s.Policy != nil && !next.IsSettled() {
		next.Rollout = RolloutPrefix + id
	}
	return next
}

// After is a new record whose generations follow those of records of the model that are gone: what servers saw of those, and what
// callers ask of them, is of no generation of this one.
func (r *Record) After(last int64) Record {
	next := *r
	next.Generation += last
	next.Wanted.Generation += last
	return next
}

// revision is one that was asked for before with the same words, which may be in memory still, or a new one.
func (r *Record) revision(wanted Revision) Revision {
	known := r.known()
	for i := range known {
		if known[i].same(&wanted) {
			return known[i]
		}
	}
	wanted.Generation, wanted.Label = r.Generation, LabelOf(wanted.Version, wanted.Resources)
	if slices.ContainsFunc(known, func(k Revision) bool { return k.Label == wanted.Label }) {
		wanted.Label = fmt.Sprintf("%s-g%d", wanted.Label, wanted.Generation)
	}
	return wanted
}

// known are the revisions of a record.
func (r *Record) known() []Revision {
	var list []Revision
	if r.Settled != nil {
		list = append(list, *r.Settled)
	}
	list = append(list, r.History...)
	if r.Wanted.Label != "" {
		list = append(list, r.Wanted)
	}
	return list
}

// IsSettled reports whether the wanted version answers, or has, on some server.
func (r *Record) IsSettled() bool { return r.Settled != nil && r.Settled.Label == r.Wanted.Label }

// hasAnswered reports whether a version was the one that answers before, so that it takes over without a check.
func (r *Record) hasAnswered(label string) bool {
	return r.Settled != nil && r.Settled.Label == label || slices.ContainsFunc(r.History, func(h Revision) bool { return h.Label == label })
}

// Settle notes that a server answers with the wanted version of a generation. false: it is noted, or another one is wanted.
func (r *Record) Settle(generation int64) (Record, bool) {
	if r.Generation != generation || r.IsSettled() {
		return *r, false
	}
	next := *r
	next.History = slices.DeleteFunc(slices.Clone(r.History), func(h Revision) bool { return h.Label == r.Wanted.Label })
	if r.Settled != nil {
		next.History = slices.Insert(next.History, 0, *r.Settled)
	}
	next.History = next.History[:min(len(next.History), maxHistory)]
	wanted := r.Wanted
	next.Settled = &wanted
	return next, true
}

// Pin notes what the revision of a label is, so that a tag which moves is the same version for all servers. false: that is
// noted, or there is no such revision any more.
func (r *Record) Pin(label, digest string) (Record, bool) {
	return r.note(label, func(v *Revision) bool {
		changed := v.Digest == ""
		if changed {
			v.Digest = digest
		}
		return changed
	})
}

// Need notes how much memory the revision of a label takes, so that no server brings its files that has less. false: that is noted,
// or there is no such revision any more.
func (r *Record) Need(label string, bytes int64) (Record, bool) {
	return r.note(label, func(v *Revision) bool {
		changed := v.NeedsBytes == 0
		if changed {
			v.NeedsBytes = bytes
		}
		return changed
	})
}

// note changes the revision of a label wherever the record has it.
func (r *Record) note(label string, change func(v *Revision) bool) (Record, bool) {
	next, changed := *r, false
	try := func(v *Revision) {
		if v.Label == label && change(v) {
			changed = true
		}
	}
	try(&next.Wanted)
	if r.Settled != nil {
		settled := *r.Settled
		try(&settled)
		next.Settled = &settled
	}
	next.History = slices.Clone(r.History)
	for i := range next.History {
		try(&next.History[i])
	}
	return next, changed
}

// Find is the revision of a label.
func (r *Record) Find(label string) (Revision, bool) {
	known := r.known()
	i := slices.IndexFunc(known, func(k Revision) bool { return k.Label == label })
	if i < 0 {
		return Revision{}, false
	}
	return known[i], true
}

// Kept are the versions that stay in memory beside the wanted one. Those that were asked for by name and were never part of
// the deployment are new revisions.
func (r *Record) Kept() []Revision {
	var list []Revision
	add := func(v Revision) {
		if v.Label != r.Wanted.Label && !slices.ContainsFunc(list, func(o Revision) bool { return o.Label == v.Label }) {
			list = append(list, v)
		}
	}
	previous := r.History
	if r.Settled != nil && !r.IsSettled() {
		previous = slices.Insert(slices.Clone(previous), 0, *r.Settled)
	}
	for i := range previous[:min(r.Warm.Previous, len(previous))] {
		add(previous[i])
	}
	known := r.known()
	for _, version := range r.Warm.Versions {
		i := slices.IndexFunc(known, func(k Revision) bool { return k.Version == version || k.Label == version })
		if i >= 0 {
			add(known[i])
			continue
		}
		add(Revision{Version: version, Label: LabelOf(version, r.Wanted.Resources), Resources: r.Wanted.Resources})
	}
	return list
}

func sameWarm(a, b *Warm) bool {
	return a.Previous == b.Previous && slices.Equal(a.Versions, b.Versions)
}

func (r *Record) samePolicy(s *Spec) bool {
	x, errX := json.Marshal(r.Policy)
	y, errY := json.Marshal(s.Policy)
	return errX == nil && errY == nil && bytes.Equal(x, y) && r.Unchecked == s.Unchecked
}
