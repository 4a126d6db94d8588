package main

import (
	"testing"

	"weir/api/openai"
	"weir/internal/inference"
	"weir/telemetry"
)

func TestHowRequestsEnd(t *testing.T) {
	ran := []inference.FinishReason{inference.FinishStop}
	for _, c := range []struct {
		name    string
		status  int
		stream  bool
		reasons []inference.FinishReason
		want    telemetry.Answer
	}{
		{"a whole answer", 200, false, ran, telemetry.Answer{Outcome: telemetry.AnswerComplete}},
		{"a stream", 200, true, ran, telemetry.Answer{Outcome: telemetry.AnswerComplete, Stream: true}},
		{"too long", 400, true, nil, telemetry.Answer{Outcome: telemetry.AnswerRefused}},
		{"over its quota", 429, false, nil, telemetry.Answer{Outcome: telemetry.AnswerRefused}},
		{"shed", 503, true, nil, telemetry.Answer{Outcome: telemetry.AnswerFailed}},
		{"a bug, no stream", 500, false, ran, telemetry.Answer{Outcome: telemetry.AnswerFailed}},
		{"a bug in a stream", 500, true, ran, telemetry.Answer{Outcome: telemetry.AnswerBroken, Stream: true}},
		{"cut off by a shutdown", 503, true, ran, telemetry.Answer{Outcome: telemetry.AnswerBroken, Stream: true}},
		{"hung up while it waited", 499, false, nil, telemetry.Answer{Outcome: telemetry.AnswerAbandoned}},
		{"hung up on a stream", 499, true, ran, telemetry.Answer{Outcome: telemetry.AnswerAbandoned, Stream: true}},
		{"a slow reader", 408, true, ran, telemetry.Answer{Outcome: telemetry.AnswerAbandoned, Stream: true}},
	} {
		f := openai.RequestFinish{RequestStart: openai.RequestStart{Stream: c.stream}, Status: c.status, Reasons: c.reasons}
		if got := answerOf(f); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
