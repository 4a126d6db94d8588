package fleet

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sony/gobreaker/v2"

	"weir/router"
)

// resides reports whether a replica is where the request may go.
func (fl *flight) resides(r *replica) bool {
	regions := fl.call.Residency
	return len(regions) == 0 || r.target.Region != "" && slices.Contains(regions, r.target.Region)
}

// panics reports whether the breaker of no replica that its probes find ready, and to which the request may go, is closed: then
// breakers would keep the request from all of them, and are not asked.
func (fl *flight) panics() bool {
	return !slices.ContainsFunc(fl.fleet.members.Load().list, func(r *replica) bool {
		return r.in(Ready) && fl.resides(r) && r.breaker.Load().State() == gobreaker.StateClosed
	})
}

// excluded are the replicas where the request must not go.
func (fl *flight) excluded(m *members) (list []router.Candidate) {
	for _, r := range m.list {
		if !fl.resides(r) {
			list = append(list, router.Candidate{Replica: r.id, Excluded: "residency: its region is " + cmp.Or(r.target.Region, "not known")})
		}
	}
	return list
}

// unplaced is why a pick found no replica, told to those who ask where the request went: where others are left, and the request must
// not go to them, it is the residency.
func (fl *flight) unplaced(m *members, err error) error {
	out := fl.excluded(m)
	if len(out) == 0 || len(fl.tried) > 0 {
		return err
	}
	fl.fleet.counts.displaced.Add(1)
	err = fmt.Errorf("%w: %w: of %d replicas, %d are elsewhere", err, router.ErrResidency, len(m.list), len(out))
	if fl.call.Tried != nil {
		fl.call.Tried(&router.Attempt{Began: fl.began, Failed: err.Error(), Considered: out})
	}
	return err
}
