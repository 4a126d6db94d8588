package inference

import (
	"time"

	"weir/internal/tensor"
)

// Description is what a classical model says of itself.
type Description struct {
	Name     string
	Version  string
	Platform string // as V2 metadata have it: "weir_gbdt", "onnx"
	Inputs   []tensor.Spec
	Outputs  []tensor.Spec
	Labels   map[string][]string // of an output's classes, by its name; nil: none
	MaxRows  int                 // the most rows of one request

	Optional []tensor.Spec // inputs that a request may leave out, because features have other sources
	Matrix   string        // of Optional: the input of all features by place, for rows without names; "": there is none
	Entity   []string      // inputs that name whom a row is about; nil: none do
	Schema   string        // hash of the features' names, types and order; "": the model has no manifest
}

// Prediction is one predict request and its answer.
type Prediction struct {
	Tenant    string
	Weight    int
	Class     Class
	DoneBy    time.Time // zero: no deadline
	WaitUntil time.Time // the end of waiting, as of Request; zero leaves it to the lane, whose own limit holds either way
	OverQuota bool
	Residency []string // regions of the servers that may compute it; none: all
	Trial     bool     // a request of the server itself, to try a version: nothing of it is logged, and no drift counted

	Signer  PeerSigner // tells another weir who calls, called for each attempt; nil: no weir is told
	Counted string     // tells another weir on the same store that the request is counted here; "": nothing is told

	// Hold keeps the version in memory that the request has found; nil: nothing of it is in memory here. The caller that set it releases it.
	Hold Hold

	ID     string // of the request, as logs and the client know it
	Arm    string // of the rollout that chose the version, as clients read it; "": of none
	Schema string // Description.Schema that the client built its rows for; "": it does not say

	Inputs  []tensor.Tensor
	Wanted  []string // names of outputs; none: all of them
	Outputs []tensor.Tensor

	Waited   time.Duration // in the lane's queue
	Computed time.Duration // this request's share of its batch
	Batch    int           // rows of the batch that it ran in
	Notes    []Note        // for the client: features that were defaulted, values that were clipped
}

// Hold is a version that is kept for a request until Release.
type Hold interface{ Release() }

// Note is something that the answer says of itself: a parameter of a V2 answer, and a
// header x-weir-NAME of any. Both are short ASCII texts.
type Note struct{ Name, Value string }
