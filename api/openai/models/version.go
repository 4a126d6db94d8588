package models

import (
	"context"
	"errors"
	"strings"

	"weir/api/edge"
	"weir/api/moderation"
	"weir/router"
	"weir/scheduler/quota"
)

// Versions hold what answers for the names of the model table, where that is not the same
// for every request: a model that is loaded on demand, or several versions between which a
// rollout divides requests. Implementations are safe for concurrent use.
type Versions interface {
	// Outline says what requests to a name find, without loading anything.
	Outline(model string) Outline
	// Acquire chooses a version for a request and holds it. Errors wrap ErrNoVersion or
	// one of inference's sentinels.
	Acquire(a *VersionRequest) (VersionLease, error)
}

// ErrNoVersion says that a model has no version of the label that a request names.
var ErrNoVersion = errors.New("no such version")

// Outline is what is known of a model, in memory or not.
type Outline struct {
	Version     string // digest of what answers
	Label       string // its name among the versions
	State       string // "loaded", "absent", "loading" …
	MaxModelLen int
	Dimensions  int  // of vectors; 0: it gives none
	Scores      int  // of a reranker; 0: it scores nothing
	Classes     int  // of a classifier; 0: it is none
	Decides     bool // it has a decision head
	Policy      *moderation.Policy
	Load        router.Load
}

// VersionRequest is what the choice of a version may depend on.
type VersionRequest struct {
	Model        string // id of the table's entry
	Version      string // label behind the name's @; empty: any
	ID           string // of the request
	Tenant       string
	Conversation string // what the client says of it, or a digest of its beginning
	Endpoint     string
	Residency    []string // regions of the servers that may get the request; none: all
	Pinned       bool     // the request names its version
	Spare        bool     // the candidate of a rollout has failed it: the stable version answers in its place
}

// VersionLease is a version that a request holds until Release. Model is nil where it is not in
// memory: then Load waits for it, as long as ctx.
type VersionLease struct {
	Model   *Model
	Load    func(ctx context.Context) (*Model, error)
	Release func()
	Policy  *moderation.Policy // of the version; nil: it has none
	Label   string             // x-weir-version
	Price   quota.Price        // of the version; without one it is the model's
	Arm     router.Arm         // of the rollout that chose it
	Spare   func() bool        // the version is a rollout's candidate: reports whether the stable version may be asked in its place; nil: it may not
	Copy    func(*Copy)        // wants the request and its answer, once that is whole, and must not block; nil: it does not

	Request *VersionRequest
}

func (o *Outline) kind() Kind {
	switch {
	case o.Scores > 0:
		return KindRank
	case o.Classes > 0:
		return KindClassify
	case o.Decides:
		return KindDecide
	case o.Dimensions > 0:
		return KindEmbedding
	}
	return KindGenerate
}

// SplitVersion takes NAME@LABEL apart.
func SplitVersion(name string) (model, label string) {
	if i := strings.LastIndexByte(name, '@'); i > 0 && i+1 < len(name) {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// Copy is a request that was answered whole, for another version to answer, too.
type Copy struct {
	Request VersionRequest
	Body    []byte
	Texts   []string // of the answer that the client got, by choice
	Finish  edge.RequestFinish

	Residency []string // regions of the servers that may get the copy; none: all

	Greedy bool // the copy asks for one answer of the likeliest tokens, whatever the request asked for
}
