package batch

import (
	"context"
	"errors"
	"time"
)

// File is what the store knows of a file. Its bytes are in the folder of the place, under the id.
type File struct {
	ID      string
	Tenant  string
	Place   string // id of the folder that has the bytes
	Purpose string
	Name    string // as the client called it
	Bytes   int64
	Created time.Time
	Expires time.Time // zero: never
	DataKey string    // id of the key that encrypts the bytes and the name; "": they are in clear
}

// Purposes of files.
const (
	PurposeBatch  = "batch"        // input of a batch
	PurposeOutput = "batch_output" // made by a batch
	PurposeUser   = "user_data"
)

// Status is where a batch stands.
type Status string

// The states of a batch that the store keeps. A batch with Cancelling set that is not past InProgress shows as
// StatusCancelling.
const (
	StatusValidating Status = "validating"
	StatusFailed     Status = "failed" // validation found errors
	StatusInProgress Status = "in_progress"
	StatusFinalizing Status = "finalizing"
	StatusCompleted  Status = "completed"
	StatusExpired    Status = "expired"
	StatusCancelled  Status = "cancelled"

	StatusCancelling Status = "cancelling" // shown, never kept
)

// Over reports whether nothing more will happen to a batch.
func (s Status) Over() bool {
	return s == StatusFailed || s == StatusCompleted || s == StatusExpired || s == StatusCancelled
}

// Batch is a batch as the store keeps it. Its process is the only one that changes it, except for Cancelling.
type Batch struct {
	ID         string    `json:"-"` // these have columns of their own
	Tenant     string    `json:"-"`
	Place      string    `json:"-"` // of its files
	Input      string    `json:"-"` // id of the file
	Status     Status    `json:"-"`
	Created    time.Time `json:"-"`
	Cancelling time.Time `json:"-"` // when it was asked to be cancelled; zero: never

	Key           string            `json:"key,omitempty"` // id of the key that made it; "" where another proof counted
	Endpoint      string            `json:"endpoint"`
	Window        string            `json:"window"` // completion_window, as asked for
	Expires       time.Time         `json:"expires"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	OutputSeconds int64             `json:"output_seconds,omitempty"` // life of the output files; 0: the server's own

	Model     string      `json:"model,omitempty"`
	Total     int         `json:"total,omitempty"` // lines, once they are counted
	Completed int         `json:"completed,omitempty"`
	Failed    int         `json:"failed,omitempty"`
	Usage     Usage       `json:"usage"`
	Errors    []LineError `json:"errors,omitempty"`

	Outcome Status `json:"outcome,omitempty"` // what Finalizing leads to
	Output  string `json:"output,omitempty"`  // ids of the files: chosen before they are written
	Faults  string `json:"faults,omitempty"`

	Started    time.Time `json:"started,omitzero"`
	Finalizing time.Time `json:"finalizing,omitzero"`
	Ended      time.Time `json:"ended,omitzero"`
}

// Usage is what the answered lines have used.
type Usage struct {
	Input     int64 `json:"input,omitempty"` // tokens
	Cached    int64 `json:"cached,omitempty"`
	Output    int64 `json:"output,omitempty"`
	Reasoning int64 `json:"reasoning,omitempty"`
}

func (u *Usage) add(o Usage) {
	u.Input += o.Input
	u.Cached += o.Cached
	u.Output += o.Output
	u.Reasoning += o.Reasoning
}

// LineError is one thing that validation found wrong.
type LineError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
	Line    int    `json:"line,omitempty"` // from 1; 0: of the whole file
}

// Page is a part of a list, in order of creation.
type Page struct {
	After     string // the id before the first one; "": from the beginning
	Limit     int
	Ascending bool      // the oldest first
	Purpose   string    // of files; "": all
	Prefix    string    // of the ids of batches; "": any
	Kept      time.Time // of batches that are over only those whose input has not expired at this time; zero: all
}

// Errors of a Store.
var (
	ErrUnknown = errors.New("there is no such file or batch of the tenant")
	ErrInUse   = errors.New("an unfinished batch reads the file")
	ErrQuota   = errors.New("the tenant has as much as it may")
	ErrLost    = errors.New("another process has the batch")
)

// Store keeps files and batches. Methods may be called concurrently. A tenant's calls see the tenant's own alone.
type Store interface {
	// AddFile adds a file, unless the tenant's files hold more than most bytes with it (ErrQuota); most 0 is no
	// bound. Each file counts as at least LeastBytes.
	AddFile(ctx context.Context, f File, most int64) error
	// FileBytes is what the tenant's files hold.
	FileBytes(ctx context.Context, tenant string) (int64, error)
	// FindFile is a file that has not expired at now, or ErrUnknown.
	FindFile(ctx context.Context, tenant, id string, now time.Time) (File, error)
	// Files is a page of the tenant's files that have not expired.
	Files(ctx context.Context, tenant string, p Page, now time.Time) (list []File, more bool, err error)
	// RemoveFile forgets a file that no unfinished batch reads: ErrUnknown, ErrInUse.
	RemoveFile(ctx context.Context, tenant, id string) error
	// ExpireFiles forgets files of a place that have expired and that no unfinished batch reads, at most so many.
	ExpireFiles(ctx context.Context, place string, now time.Time, most int) ([]File, error)
	// AnyFile is a file of any tenant, expired or not, without its name, or ErrUnknown.
	AnyFile(ctx context.Context, id string) (File, error)
	// HasBatch reports whether an unfinished batch of any tenant has the id.
	HasBatch(ctx context.Context, id string) (bool, error)

	// AddBatch adds a batch of a file of the tenant, unless the tenant has most unfinished ones (ErrQuota), or the
	// file is gone (ErrUnknown).
	AddBatch(ctx context.Context, b Batch, most int) error
	FindBatch(ctx context.Context, tenant, id string) (Batch, error)
	Batches(ctx context.Context, tenant string, p Page) (list []Batch, more bool, err error)
	// CancelBatch notes that an unfinished batch shall end, and returns it; a finished one is returned as it is.
	CancelBatch(ctx context.Context, tenant, id string, at time.Time) (Batch, error)
	// Unfinished are the unfinished batches of all tenants, the oldest first, at most so many.
	Unfinished(ctx context.Context, most int) ([]Batch, error)

	// LeaseBatch takes the oldest unfinished batch of a place that no living process has, but none of the tenants in
	// except, and none of those that are left to other servers. Its lease ends with the process, or with ReleaseBatch.
	LeaseBatch(ctx context.Context, place string, except, left []string) (b Batch, found bool, err error)
	// SaveBatch writes a leased batch and returns when somebody asked to cancel it. ErrLost: the lease is over.
	SaveBatch(ctx context.Context, b *Batch) (cancelling time.Time, err error)
	// FinishBatch writes a batch that is over, adds its files and ends the lease, all or nothing.
	FinishBatch(ctx context.Context, b *Batch, files []File) error
	ReleaseBatch(ctx context.Context, id string) error
	// ForgetBatches deletes the tenant's batches, whose runs end with ErrLost, and files, whose bytes are the caller's
	// to delete.
	ForgetBatches(ctx context.Context, tenant string) ([]File, error)
	// ExpireBatches deletes batches that ended before a time.
	ExpireBatches(ctx context.Context, before time.Time) error
}

// LeastBytes is what a file counts as at least, in a tenant's quota: its place on the disk.
const LeastBytes = 4 << 10
