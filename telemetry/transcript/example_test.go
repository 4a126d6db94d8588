package transcript_test

import (
	"context"
	"fmt"
	"time"

	"weir/telemetry/transcript"
)

// printing is a log that shows what it is to keep.
type printing struct{ transcript.Log }

func (printing) KeepTranscripts(_ context.Context, records []transcript.Record) error {
	for _, r := range records {
		fmt.Println(r.Tenant, r.Prompts, r.Answers)
	}
	return nil
}

func (printing) ExpireTranscripts(context.Context, time.Time) (int64, error) { return 0, nil }

// A record is made and kept beside the requests, and scrubbed before.
func Example() {
	r := transcript.NewRecorder(transcript.Config{Log: printing{}, Retention: 30 * 24 * time.Hour, Failed: func(err error) { fmt.Println(err) }})
	r.Add(transcript.Source{Tenant: "acme", Bytes: 100, Record: func() transcript.Record {
		return transcript.Record{Tenant: "acme", Prompts: []string{"Write to ann@example.org"}, Answers: []string{"Dear Ann"}}
	}})
	if err := r.Close(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(r.Stats().Kept)
	// Output:
	// acme [Write to [email]] [Dear Ann]
	// 1
}
