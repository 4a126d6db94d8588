package router

import "time"

// Attempt is what happened to a request at one of the servers that were asked.
type Attempt struct {
	Replica    string
	Reason     string // why it was picked
	Began      time.Time
	Took       time.Duration // until the answer had ended, or the attempt had failed
	Status     int           // of the answer; 0: none came
	Failed     string        // what went wrong; "" is nothing
	Considered []Candidate   // what the pick has looked at, the one that was picked with it
}

// Candidate is a server that a pick has looked at, with the terms of what it would cost there.
type Candidate struct {
	Replica     string
	Keys        int     // pieces of the prompt that it holds
	Tokens      int     // of the prompt, to be computed there
	Fetched     int     // of the prompt, whose KV blocks it would fetch from another server
	Ahead       int     // tokens that wait there
	Load        int     // requests there
	KVShare     float64 // of its KV cache in use
	CostSeconds float64 // by which the policy prefix chose: the expected time to the first token and a share for decoding; of other policies, the load
	Session     bool    // it is the session's home
	Gated       bool    // it is loaded too far above the mean to be picked
	Waits       bool    // all of its slots are taken

	Excluded string // why the request must not go there; "": it may
}
