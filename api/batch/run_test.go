package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/reference"

	"github.com/valyala/fasthttp"
)

// inBubble runs a test of a world in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t)) })
}

func TestBatchRunsAllLinesOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.begin()
		defer w.end()
		w.edge.script = func(prompt string, try int, gone <-chan struct{}, ctx *fasthttp.RequestCtx) {
			time.Sleep(time.Second)
			if prompt == "3" {
				refuse(ctx, "context_length_exceeded", 0)
				return
			}
			echo(prompt, try, gone, ctx)
		}
		id := w.create("\xef\xbb\xbf" + linesOf(10) + "\n \r\n" + strings.TrimSuffix(lineOf("last"), "\n"))
		time.Sleep(1500 * time.Millisecond)
		if _, b := w.ask("GET", "/v1/batches/"+id, ""); b["status"] != "in_progress" || fmt.Sprint(b["request_counts"]) != "map[completed:7 failed:1 total:11]" {
			t.Errorf("halfway: %v", b)
		}
		b := w.until(id, StatusCompleted)
		if fmt.Sprint(b["request_counts"]) != "map[completed:10 failed:1 total:11]" || b["model"] != "m" || b["completed_at"] == nil || b["in_progress_at"] == nil {
			t.Errorf("%v", b)
		}
		if u := b["usage"]; fmt.Sprint(u) != "map[input_tokens:30 input_tokens_details:map[cached_tokens:10] output_tokens:20 output_tokens_details:map[reasoning_tokens:0] total_tokens:50]" {
			t.Errorf("%v", u)
		}
		output, faults := w.content(b["output_file_id"]), w.content(b["error_file_id"])
		if len(output) != 10 || len(faults) != 1 || faults["3"].Response.Status != 400 || faults["3"].Error != nil {
			t.Errorf("%d lines, faults %v", len(output), faults)
		}
		if l := output["last"]; l.Error != nil || l.Response.Status != 200 || l.Response.RequestID != "r-last" || !strings.HasPrefix(string(l.Response.Body), `{"echo":"last","usage"`) {
			t.Errorf("%+v %s", l, l.Response.Body)
		}
		for prompt, times := range w.edge.asked {
			if times != 1 {
				t.Errorf("%s was asked %d times", prompt, times)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(w.dir, batchesFolder, "*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// A line that is no JSON fails alone, by its name where that can be told and by its number.
func TestLinesThatAreNoJSONFailAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.begin()
		defer w.end()
		nan := strings.Replace(lineOf("flowers"), `"prompt"`, `"temperature":-Infinity,"rows":[1,NaN],"prompt"`, 1)
		b := w.until(w.create("{\n"+lineOf("a")+"\n"+nan+"\n"+lineOf("b")+"\n[]\n"+lineOf("c")[:30]), StatusCompleted)
		if fmt.Sprint(b["request_counts"]) != "map[completed:2 failed:4 total:6]" || b["errors"] != nil {
			t.Errorf("%v", b)
		}
		if output := w.content(b["output_file_id"]); len(output) != 2 || output["a"].Response.Status != 200 || output["b"].Response.Status != 200 {
			t.Errorf("%v", output)
		}
		faults := w.text(b["error_file_id"])
		for _, want := range []string{
			`"custom_id":"flowers","response":null,"error":{"code":"invalid_json_line","message":"the line is no JSON object: byte `,
			` has -Infinity, and JSON has no NaN and no Infinity; send null for a missing value","line":3}}`,
			`"custom_id":null,"response":null,"error":{"code":"invalid_json_line","message":"the line is no JSON object: it is a JSON array; it must be an object","line":5}}`,
			`"line":1}}`, `"line":6}}`,
		} {
			if !strings.Contains(faults, want) {
				t.Errorf("the file of errors lacks %s:\n%s", want, faults)
			}
		}
		for line := range strings.SplitSeq(strings.TrimSpace(faults), "\n") {
			if !json.Valid([]byte(line)) || strings.Contains(line, "Go ") {
				t.Errorf("%s", line)
			}
		}
	})
}

func TestInvalidInputsFailWithTheirLines(t *testing.T) {
	stream := strings.Replace(lineOf("s"), `"prompt"`, `"stream":true,"prompt"`, 1)
	for name, c := range map[string]struct{ text, want string }{
		"empty":                  {"", "empty_file::0"},
		"blank":                  {"\n \n\r\n", "empty_file::0"},
		"no JSON":                {"not json\n{\n[]\n", "invalid_json_line::1 invalid_json_line::2 invalid_json_line::3"},
		"torn":                   {lineOf("a")[:30], "invalid_json_line::1"},
		"no JSON beside another": {lineOf("a") + "\n{\n" + lineOf("a"), "invalid_json_line::2 duplicate_custom_id:custom_id:3"},
		"two of a name":          {lineOf("a") + "\n" + lineOf("b") + "\n\n" + lineOf("a"), "duplicate_custom_id:custom_id:4"},
		"another endpoint":       {strings.Replace(lineOf("a"), "/v1/completions", "/v1/embeddings", 1), "invalid_url:url:1"},
		"no url":                 {`{"custom_id":"a","method":"POST","body":{}}`, "invalid_url:url:1"},
		"another method":         {strings.Replace(lineOf("a"), "POST", "GET", 1), "invalid_method:method:1"},
		"two models":             {lineOf("a") + "\n" + strings.Replace(lineOf("b"), `"m"`, `"n"`, 1), "mismatched_model:body.model:2"},
		"no name":                {`{"method":"POST","url":"/v1/completions","body":{}}`, "missing_required_parameter:custom_id:1"},
		"long name":              {lineOf(strings.Repeat("x", 513)), "invalid_value:custom_id:1"},
		"name of a number":       {strings.Replace(lineOf("a"), `"custom_id":"a"`, `"custom_id":7`, 1), "invalid_type:custom_id:1"},
		"no body":                {`{"custom_id":"a","method":"POST","url":"/v1/completions"}`, "invalid_value:body:1"},
		"list for a body":        {`{"custom_id":"a","method":"POST","url":"/v1/completions","body":[]}`, "invalid_value:body:1"},
		"stream":                 {stream, "invalid_value:body.stream:1"},
		"model of a list":        {strings.Replace(lineOf("a"), `"m"`, `[]`, 1), "invalid_type:body.model:1"},
		"long line":              {lineOf("a") + "\n" + strings.Repeat(" ", 5000) + lineOf("b"), "line_too_large::2"},
		"many errors":            {strings.Repeat("x\n", 500), strings.TrimSpace(strings.Repeat("invalid_json_line:: ", maxLineErrors))},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.limit.LineBytes = 4096
				w.begin()
				defer w.end()
				b := w.until(w.create(c.text), StatusFailed)
				if b["failed_at"] == nil || b["output_file_id"] != nil || len(w.edge.asked) > 0 {
					t.Errorf("%v", b)
				}
				var got []string
				for _, e := range b["errors"].(map[string]any)["data"].([]any) {
					e := e.(map[string]any)
					param, line := "", 0.0
					if e["param"] != nil {
						param = e["param"].(string)
					}
					if e["line"] != nil {
						line = e["line"].(float64)
					}
					if name == "many errors" {
						got = append(got, fmt.Sprintf("%s:%s:", e["code"], param))
						continue
					}
					got = append(got, fmt.Sprintf("%s:%s:%.0f", e["code"], param, line))
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("%s, want %s: %v", got, c.want, b["errors"])
				}
			})
		})
	}
}

// A line that is refused for want of capacity or quota waits as long as it is told, and goes on until it has an answer.
func TestRefusedLinesWaitAndTryAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.begin()
		defer w.end()
		w.edge.script = func(prompt string, try int, gone <-chan struct{}, ctx *fasthttp.RequestCtx) {
			switch {
			case prompt == "0" && try <= 20:
				refuse(ctx, "server_is_overloaded", 5*time.Second)
			case prompt == "1" && try <= 3:
				refuse(ctx, "insufficient_quota", 10*time.Hour) // asked again every minute: it may be raised
			case prompt == "2":
				refuse(ctx, "insufficient_quota", 0) // larger than the budget: never
			case prompt == "3":
				refuse(ctx, "internal_error", time.Second)
			case prompt == "4":
				refuse(ctx, "deadline_exceeded", 0)
			default:
				echo(prompt, try, gone, ctx)
			}
		}
		began := time.Now()
		b := w.until(w.create(linesOf(6)), StatusCompleted)
		if took := time.Since(began); took < 3*time.Minute || took > 4*time.Minute {
			t.Errorf("it took %v", took)
		}
		output, faults := w.content(b["output_file_id"]), w.content(b["error_file_id"])
		if len(output) != 3 || len(faults) != 3 || faults["2"].Response.Status != 429 || faults["3"].Response.Status != 500 ||
			faults["4"].Response != nil || faults["4"].Error.Code != codeTimeout {
			t.Errorf("%v\n%v", output, faults)
		}
		for prompt, want := range map[string]int{"0": 21, "1": 4, "2": 1, "3": maxFaults, "4": 1, "5": 1} {
			if got := w.edge.asked[prompt]; got != want {
				t.Errorf("line %s was asked %d times, want %d", prompt, got, want)
			}
		}
		if st := w.Stats(); st.Completed != 3 || st.Failed != 3 || st.Refused != 25 || st.Lines != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// slowly answers after a second, or not at all where the answer is not wanted any more.
func slowly(prompt string, try int, gone <-chan struct{}, ctx *fasthttp.RequestCtx) {
	select {
	case <-time.After(time.Second):
		echo(prompt, try, gone, ctx)
	case <-gone:
		refuse(ctx, "client_closed_request", 0)
	}
}

func TestCancelledBatchKeepsWhatIsDone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.edge.script = slowly
		w.limit.Concurrency = 2
		w.begin()
		defer w.end()
		id := w.create(linesOf(20))
		time.Sleep(3500 * time.Millisecond)
		status, b := w.ask("POST", "/v1/batches/"+id+"/cancel", "")
		if status != 200 || b["status"] != "cancelling" || b["cancelling_at"] == nil {
			t.Fatalf("%d %v", status, b)
		}
		synctest.Wait() // without any time
		_, b = w.ask("GET", "/v1/batches/"+id, "")
		if b["status"] != "cancelled" || b["cancelled_at"] == nil || fmt.Sprint(b["request_counts"]) != "map[completed:6 failed:0 total:20]" {
			t.Errorf("%v", b)
		}
		output, faults := w.content(b["output_file_id"]), w.content(b["error_file_id"])
		if len(output) != 6 || len(faults) != 14 {
			t.Errorf("%d and %d lines", len(output), len(faults))
		}
		for name, l := range faults {
			if l.Response != nil || l.Error.Code != codeCancelled {
				t.Errorf("%s: %+v", name, l)
			}
		}
		if status, b := w.ask("POST", "/v1/batches/"+id+"/cancel", ""); status != 200 || b["status"] != "cancelled" {
			t.Errorf("again: %d %v", status, b)
		}
		if st := w.Stats(); st.Cancelled != 14 || st.Completed != 6 {
			t.Errorf("%+v", st)
		}
		done := w.create(linesOf(1))
		w.until(done, StatusCompleted)
		if status, b := w.ask("POST", "/v1/batches/"+done+"/cancel", ""); status != 409 {
			t.Errorf("a completed batch: %d %v", status, b)
		}
	})
}

func TestBatchExpires(t *testing.T) {
	reference.Slow(t)
	inBubble(t, func(t *testing.T, w *world) {
		w.edge.script = func(prompt string, try int, gone <-chan struct{}, ctx *fasthttp.RequestCtx) {
			if prompt == "1" {
				refuse(ctx, "insufficient_quota", 48*time.Hour)
				return
			}
			echo(prompt, try, gone, ctx)
		}
		w.begin()
		defer w.end()
		began := time.Now()
		b := w.until(w.create(linesOf(3)), StatusExpired)
		if time.Since(began) < 24*time.Hour || b["expired_at"] == nil || len(w.content(b["output_file_id"])) != 2 {
			t.Errorf("%v", b)
		}
		if l := w.content(b["error_file_id"])["1"]; l.Error == nil || l.Error.Code != codeExpired {
			t.Errorf("%+v", l)
		}
	})
}

// A process that stops ends no line: those that run are done, the others are done by the next process, each once.
func TestNextProcessGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.edge.script = slowly
		w.limit.Concurrency = 3
		w.begin()
		id := w.create(linesOf(30))
		for range 4 {
			time.Sleep(2500 * time.Millisecond)
			w.end()
			w.begin()
		}
		defer w.end()
		b := w.until(id, StatusCompleted)
		if n := len(w.content(b["output_file_id"])); n != 30 || b["error_file_id"] != nil {
			t.Errorf("%d lines: %v", n, b)
		}
		for prompt, times := range w.edge.asked {
			if times != 1 {
				t.Errorf("%s was asked %d times", prompt, times)
			}
		}
		if u := b["usage"].(map[string]any)["total_tokens"]; u != 150.0 {
			t.Errorf("usage: %v", b["usage"])
		}
	})
}

// A server that has not the model of a batch which another one has begun leaves it alone, also where its lines name no model: they are the
// first server's. It ends such a batch where it is cancelled, or its time is over.
func TestABatchWaitsForAServerWithItsModel(t *testing.T) {
	for name, c := range map[string]struct {
		model string // of each line
		then  func(w *world, id string)
		want  Status
	}{
		"the first server comes back": {`"model":"m",`, func(w *world, _ string) {
			w.end()
			w.models = []string{"m"}
			w.begin()
		}, StatusCompleted},
		"no model is named": {``, func(w *world, _ string) {
			w.end()
			w.models = []string{"x", "m"}
			w.begin()
		}, StatusCompleted},
		"a version is named": {`"model":"m@2",`, func(w *world, _ string) { w.end(); w.models = []string{"m"}; w.begin() }, StatusCompleted},
		"it is cancelled":    {`"model":"m",`, func(w *world, id string) { w.ask("POST", "/v1/batches/"+id+"/cancel", "") }, StatusCancelled},
		"its window is over": {`"model":"m",`, func(*world, string) { time.Sleep(24 * time.Hour) }, StatusExpired},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.edge.script, w.limit.Concurrency, w.models = slowly, 3, []string{"m"}
				w.begin()
				id := w.create(strings.ReplaceAll(linesOf(30), `"model":"m",`, c.model))
				time.Sleep(2500 * time.Millisecond)
				w.end()
				told := 0
				w.fails = func(err error) {
					if told++; !strings.Contains(err.Error(), "waits for a server that has its model") {
						t.Errorf("in the background: %v", err)
					}
				}
				before := len(w.edge.asked)
				w.models = []string{"other"}
				w.begin()
				time.Sleep(time.Minute)
				synctest.Wait()
				if _, b := w.ask("GET", "/v1/batches/"+id, ""); b["status"] != "in_progress" || len(w.edge.asked) != before || before == 0 || told != 1 {
					t.Errorf("on a server without the model: %d lines were asked, and %d before; told %d times: %v", len(w.edge.asked), before, told, b)
				}
				c.then(w, id)
				b := w.until(id, c.want)
				if n := len(w.content(b["output_file_id"])); c.want == StatusCompleted && n != 30 || c.want != StatusCompleted && n != before {
					t.Errorf("%d lines: %v", n, b)
				}
				w.end()
			})
		})
	}
}

// A process that dies at any byte of its journal loses what is behind the last whole record; each line is in the
// output once.
func TestTornJournalIsCutAndGoneOnFrom(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.edge.script = slowly
		w.limit.Concurrency = 4
		w.begin()
		id := w.create(linesOf(20))
		time.Sleep(2500 * time.Millisecond)
		w.end()
		whole, err := os.ReadFile(w.folder.journal(id))
		if err != nil || len(whole) == 0 {
			t.Fatal(err)
		}
		for _, left := range []int{0, 3, 8, 20, len(whole) / 2, len(whole) - 1} {
			torn := append(whole[:left:left], "\x09\x00\x00\x00garbage"...)
			if err := os.WriteFile(w.folder.journal(id), torn, 0o600); err != nil {
				t.Fatal(err)
			}
			w.store.mu.Lock()
			saved := w.store.batches[id]
			saved.Status, saved.Output = StatusInProgress, ""
			w.store.batches[id] = saved
			w.store.mu.Unlock()
			w.begin()
			b := w.until(id, StatusCompleted)
			if n := len(w.content(b["output_file_id"])); n != 20 {
				t.Errorf("from byte %d of %d: %d lines", left, len(whole), n)
			}
			w.end()
		}
	})
}

// Lines run one at a time beside other requests, and for a second after them; more while there are no others.
func TestLinesLeaveRoomForOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var others, running, most atomic.Int64
		w.busy = func() int { return int(others.Load()) }
		w.edge.script = func(prompt string, try int, gone <-chan struct{}, ctx *fasthttp.RequestCtx) {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			echo(prompt, try, gone, ctx)
		}
		others.Store(1)
		w.begin()
		defer w.end()
		id := w.create(linesOf(100))
		time.Sleep(10 * time.Second)
		if most.Load() != 1 {
			t.Errorf("%d lines ran beside another request", most.Load())
		}
		others.Store(0)
		time.Sleep(900 * time.Millisecond)
		if most.Load() != 1 {
			t.Errorf("%d lines ran at once after the other request", most.Load())
		}
		time.Sleep(5 * time.Second)
		if got := most.Load(); got != int64(w.limit.Concurrency) {
			t.Errorf("%d lines run while there are no other requests", got)
		}
		w.until(id, StatusCompleted)
	})
}

func TestPanicOfALineIsItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.edge.script = func(prompt string, try int, gone <-chan struct{}, ctx *fasthttp.RequestCtx) {
			if prompt == "1" {
				panic("a bug")
			}
			echo(prompt, try, gone, ctx)
		}
		w.begin()
		defer w.end()
		b := w.until(w.create(linesOf(3)), StatusCompleted)
		if l := w.content(b["error_file_id"])["1"]; l.Response == nil || l.Response.Status != 500 || len(w.content(b["output_file_id"])) != 2 {
			t.Errorf("%+v in %v", l, b)
		}
	})
}

// A forgotten tenant's batch stops, and leaves nothing.
func TestForgottenBatchEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.edge.script = slowly
		w.limit.Concurrency = 1
		w.fails = func(err error) {
			if !errors.Is(err, ErrLost) {
				t.Error(err)
			}
		}
		w.begin()
		w.create(linesOf(1000))
		time.Sleep(3 * time.Second)
		if files, err := w.Forget(context.Background(), ""); files != 1 || err != nil {
			t.Errorf("%d files, %v", files, err)
		}
		time.Sleep(time.Minute)
		for _, folder := range []string{filesFolder, batchesFolder, newFolder} {
			if left, _ := os.ReadDir(filepath.Join(w.dir, folder)); len(left) > 0 {
				t.Errorf("%s has %v", folder, left)
			}
		}
		w.end()
		if n := len(w.edge.asked); n > 5 {
			t.Errorf("%d lines were run", n)
		}
	})
}

// While the store fails, lines go on: they are in the journal. The batch ends when the store is back.
func TestStoreThatFailsForAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.edge.script = slowly
		w.limit.Concurrency = 1
		var failures atomic.Int64
		w.fails = func(error) { failures.Add(1) }
		w.begin()
		defer w.end()
		id := w.create(linesOf(20))
		time.Sleep(2 * time.Second)
		w.store.mu.Lock()
		w.store.fails = errors.New("disk")
		w.store.mu.Unlock()
		time.Sleep(10 * time.Second)
		w.edge.mu.Lock()
		asked := len(w.edge.asked)
		w.edge.mu.Unlock()
		w.store.mu.Lock()
		w.store.fails = nil
		w.store.mu.Unlock()
		w.until(id, StatusCompleted)
		if asked < 10 || failures.Load() == 0 {
			t.Errorf("%d lines were run without the store, which failed %d times", asked, failures.Load())
		}
	})
}

func TestOperatorsSeeProgress(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.edge.script = slowly
		w.begin()
		defer w.end()
		id := w.create(linesOf(20))
		time.Sleep(1500 * time.Millisecond)
		list, err := w.Unfinished(context.Background())
		if err != nil || len(list) != 1 || list[0].ID != id || !list[0].Here || list[0].Completed != 8 || list[0].Total != 20 || list[0].Status != StatusInProgress {
			t.Errorf("%+v, %v", list, err)
		}
		if _, err := json.Marshal(list); err != nil {
			t.Error(err)
		}
		w.until(id, StatusCompleted)
	})
}
