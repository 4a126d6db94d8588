// Package transcript keeps prompts and answers of the tenants that agreed to it. What is
// kept has gone through scrub. It is kept beside the requests' way, in a goroutine of
// its own: a request never waits for it, and where the store is too slow transcripts are
// dropped and counted.
package transcript

import (
	"context"
	"iter"
	"strings"
	"time"

	"weir/telemetry/scrub"
)

// Record is one request with its answers. Its texts are UTF-8 without NUL.
type Record struct {
	Time     time.Time // of the request's end; kept in whole microseconds
	Tenant   string
	Request  string // id of the request, as logs and traces have it
	Endpoint string // "/v1/chat/completions"
	Model    string
	Status   int      // HTTP status of the answer
	Prompts  []string // as the model read them
	Answers  []string // of all choices; those of one prompt stand together
}

// Log keeps records; internal/store has it.
type Log interface {
	// KeepTranscripts adds records.
	KeepTranscripts(ctx context.Context, records []Record) error
	// Transcripts are a tenant's records, the oldest first. An error is the last thing
	// they yield.
	Transcripts(ctx context.Context, tenant string) iter.Seq2[Record, error]
	// ForgetTranscripts deletes a tenant's records and returns how many there were.
	ForgetTranscripts(ctx context.Context, tenant string) (int64, error)
	// ExpireTranscripts deletes the records of all tenants from before a time.
	ExpireTranscripts(ctx context.Context, before time.Time) (int64, error)
}

// MaxTextBytes bounds a prompt or an answer; what is above is cut off.
const MaxTextBytes = 256 << 10

// cutMark ends a text that was cut.
const cutMark = "[cut]"

// scrubbed is the record as it may be kept.
func (r Record) scrubbed() Record {
	r.Prompts, r.Answers = cleaned(r.Prompts), cleaned(r.Answers)
	return r
}

func cleaned(texts []string) []string {
	kept := make([]string, len(texts))
	for i, text := range texts {
		kept[i] = clean(text)
	}
	return kept
}

// clean scrubs a text and makes it one that every database takes. It is cut after it was
// scrubbed: half a secret would pass for none.
func clean(text string) string {
	text = scrub.Text(strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD"))
	if len(text) <= MaxTextBytes {
		return text
	}
	return strings.ToValidUTF8(text[:MaxTextBytes], "") + cutMark
}
