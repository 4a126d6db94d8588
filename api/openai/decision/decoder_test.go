package decision_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"weir/api"
	"weir/api/openai/decision"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/tokenizer/chat"
)

// A client's JSON may be long of which a template writes little: white space, and names that come again. What questions share is read once and
// not for each of them, so that reading a request takes memory, and time, by its length.
func TestLongJSONIsReadOnce(t *testing.T) {
	const questions, most = 60, 30 // bytes that are allocated for each of the body
	blank, again := "{\"a\":1"+strings.Repeat(" ", 1<<20)+"}", "{"+strings.Repeat(`"a":1,`, 8000)+`"a":1}`
	template, err := chat.Parse(`{{ state | tojson }}{{ instructions | tojson }}{{ questions | length if questions is defined }}`, chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ kind, state, instructions string }{
		{"openjev", blank, `"x"`}, {"lev", blank, `"x"`}, {"openjev", again, `"x"`}, {"lev", again, `"x"`}, {"nimble", `"x"`, again},
	} {
		m := *testModel()
		m.Decision = &models.Decision{Type: c.kind, Template: template}
		list := make([]string, questions)
		for i := range list {
			list[i] = fmt.Sprintf(`"q%d":{"type":"noul","instructions":%s}`, i, c.instructions)
		}
		body := `{"state":` + c.state + `,"questions":{` + strings.Join(list, ",") + `}}`
		var p *decision.Request
		var fault *api.Error
		taken := allocated(func() {
			o, f := job.ReadBody([]byte(body), false)
			if fault = f; fault == nil {
				p, fault = decision.ReadSystemOne(o, &m)
			}
		})
		if fault != nil || p.Len() != questions || len(p.Prompt(0)) > 64 {
			t.Fatalf("%s: %+v", c.kind, fault)
		}
		if taken > most*uint64(len(body)) {
			t.Errorf("%s: reading %d bytes took %d of memory", c.kind, len(body), taken)
		}
	}
}

// allocated is how much memory a call takes from the heap, the least of three times: others may be at work.
func allocated(call func()) uint64 {
	var all []uint64
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		call()
		runtime.ReadMemStats(&after)
		all = append(all, after.TotalAlloc-before.TotalAlloc)
	}
	return slices.Min(all)
}
