// Package conversation keeps responses that clients may read again and go on from. A
// conversation is a chain: each response holds the items that its request added and those
// of its answer, and names the response that it goes on from.
package conversation

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Response is a stored response of a tenant.
type Response struct {
	Tenant   string
	ID       string
	Previous string // id of the response that this one goes on from; "" is none
	Status   string // of the object
	Input    []byte // JSON array: the items that the request added
	Object   []byte // the response as its clients get it: JSON

	// Begun: an earlier state of it was kept. Where that is gone, it was deleted, and stays so.
	Begun bool

	// Replaces is the status of an earlier, finished state in whose place this one comes; "" is none. Where that is gone or has changed
	// nothing is kept.
	Replaces string

	// Lost: it is not finished, and the process that computed it is gone.
	Lost bool
}

// Bytes is about what a response holds.
func (r *Response) Bytes() int64 { return int64(len(r.Input)+len(r.Object)) + overheadBytes }

const overheadBytes = 512

// Statuses of responses that are still computed.
const (
	Queued     = "queued"
	InProgress = "in_progress"
	Cancelled  = "cancelled"
)

// Finished reports whether nothing will change about a response any more.
func (r *Response) Finished() bool { return r.Status != Queued && r.Status != InProgress }

var (
	// ErrUnknown says that the tenant has no response of that id: it never had one, it was deleted, its
	// time is over, or it had to make room.
	ErrUnknown = errors.New("the response is not known")
	// ErrFinished says that the response is finished, and so is not changed.
	ErrFinished = errors.New("the response is finished")
	// ErrChanged says that a response has changed since the state that another one shall replace.
	ErrChanged = errors.New("the response has changed meanwhile")
)

// BrokenError says that a response is there, and one that it goes on from is not.
type BrokenError struct{ Missing string }

func (e *BrokenError) Error() string {
	return fmt.Sprintf("the earlier response %s is gone", e.Missing)
}

func (e *BrokenError) Unwrap() error { return ErrUnknown }

// ErrTooLong says that a conversation has more than MaxResponses or MaxBytes.
var ErrTooLong = errors.New("the conversation is too long to be stored")

// What a conversation may have.
const (
	MaxResponses = 2048
	MaxBytes     = 64 << 20
)

// Listing says which responses are listed.
type Listing struct {
	Prefix string // of their ids
	After  string // they come behind the one of this id; "": from the beginning
	Limit  int    // the most
	Newest bool   // the last used first
}

// Store keeps responses. All methods may be called at the same time. A response is found by
// its own tenant only.
type Store interface {
	// KeepResponse adds a response for its time to live, which starts over for those that it goes
	// on from. One of the same id is replaced as long as it is not finished: else the error is ErrFinished. One that has begun is not added:
	// where it is gone, the error is ErrUnknown. One that replaces a state does so at once and wholly; else the error is ErrChanged or ErrUnknown.
	KeepResponse(ctx context.Context, r *Response, ttl time.Duration) error
	// FindResponse gives a response; the error is ErrUnknown.
	FindResponse(ctx context.Context, tenant, id string) (*Response, error)
	// Conversation gives a response and those that it goes on from, the oldest first. The error
	// is ErrUnknown, a *BrokenError or ErrTooLong.
	Conversation(ctx context.Context, tenant, id string) ([]*Response, error)
	// ListResponses gives responses of a tenant in the order of their last use.
	ListResponses(ctx context.Context, tenant string, q Listing) ([]*Response, error)
	// DeleteResponse deletes a response; the error is ErrUnknown.
	DeleteResponse(ctx context.Context, tenant, id string) error
	// ForgetResponses deletes all responses of a tenant, and returns how many there were.
	ForgetResponses(ctx context.Context, tenant string) (int64, error)
}
