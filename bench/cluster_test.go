package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestClusterFigures(t *testing.T) {
	ok := Outcome{FirstText: 0.1, TTFT: 0.1, Latency: 0.5, Chunks: 5, OutputTokens: 5, PromptTokens: 100, CachedTokens: 60, Replica: "a"}
	slow, cut, refused := ok, ok, Outcome{Kind: "http_503", Start: 1}
	slow.FirstText, slow.CachedTokens, slow.Replica = 0.3, 0, "b"
	cut.Kind, cut.Replica = failBroken, "b"
	run := &ClusterRun{Policy: "prefix", Duration: 3 * time.Second, Killed: "b", KilledAt: time.Second, Returned: 2 * time.Second,
		Turns: []Turn{{ok, 0, 0}, {slow, 1, 0}, {cut, 1, 1}, {refused, 0, 1}}}
	f := run.Figures()
	if f.Requests != 4 || f.Failed != 2 || f.FailedBefore != 1 || f.OutputPerSecond != 5 || f.HitShare != 0.3 {
		t.Errorf("%+v", f)
	}
	if !near(f.TTFT[0], 200) || f.ByReplica["a"] != 1 || f.ByReplica["b"] != 2 || f.ByReplica[""] != 1 {
		t.Errorf("%+v", f)
	}
	var table, plot bytes.Buffer
	if err := WriteClusterMarkdown(&table, []*ClusterRun{run, run}, nil); err != nil || strings.Count(table.String(), "5 (1.00x)") != 2 {
		t.Errorf("%v\n%s", err, table.String())
	}
	if err := PlotCluster(&plot, []*ClusterRun{run}); err != nil || xml.Unmarshal(plot.Bytes(), new(struct{})) != nil {
		t.Errorf("%v\n%s", err, plot.String())
	}
	if !strings.Contains(plot.String(), "b killed") || !strings.Contains(plot.String(), "no replica") {
		t.Error(plot.String())
	}
}

// Each turn sends all that was said before, and a failed one ends its conversation.
func TestChats(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Messages []message }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
			return
		}
		if asked.Add(1)%7 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		for i, m := range q.Messages {
			want := []string{"assistant", "user"}[i%2]
			if i == 0 {
				want = "system"
			}
			if m.Role != want || m.Content == "" || want == "assistant" && m.Content != "Right." {
				t.Errorf("message %d is %+v", i, m)
			}
		}
		w.Header().Set("X-Weir-Replica", "r1")
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Right.\"},\"finish_reason\":\"stop\"}]}\n\n"+
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n")
	}))
	defer server.Close()
	target := &Target{BaseURL: server.URL, Endpoint: EndpointChat, Model: "m"}
	if err := target.Check(); err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for asked.Load() < 40 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	turns := (&Chats{Clients: 2, Systems: 2, SystemWords: 5, TurnWords: 3, Turns: 3, OutputTokens: 4}).Run(ctx, target)
	longest, failed := 0, 0
	for _, turn := range turns {
		longest = max(longest, turn.Number)
		if !turn.ok() {
			failed++
		} else if turn.Replica != "r1" || turn.OutputTokens != 2 {
			t.Errorf("%+v", turn)
		}
	}
	if len(turns) < 38 || longest != 2 || failed < 4 {
		t.Errorf("%d turns, longest conversation %d, %d failed", len(turns), longest+1, failed)
	}
}
