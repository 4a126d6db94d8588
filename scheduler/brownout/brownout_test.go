package brownout

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/internal/inference"
)

// steps are two: short answers when requests wait, and a smaller model when the KV
// cache or the queue is nearly full, too.
func steps() []Step {
	return []Step{
		{Name: "short", Enter: Load{QueueWait: 2 * time.Second}, EnterAfter: 3 * time.Second, LeaveAfter: 10 * time.Second,
			MaxTokens: [inference.NumClasses]int{0, 512, 128}},
		{Name: "small", Enter: Load{QueueWait: 8 * time.Second, KVPercent: 95}, Leave: Load{QueueWait: 4 * time.Second},
			EnterAfter: 5 * time.Second, LeaveAfter: 20 * time.Second,
			MaxTokens: [inference.NumClasses]int{1024, 0, 64}, Models: map[string]string{"large": "tiny"}, Speculation: inference.ToggleOff},
	}
}

func newController(t *testing.T, steps []Step) *Controller {
	t.Helper()
	c, err := New(steps)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A story of one overload, second by second.
func TestStepsComeAndGoOneByOne(t *testing.T) {
	c := newController(t, steps())
	at := time.Unix(1000, 0)
	for _, s := range []struct {
		seconds int
		load    Load
		level   int // at the end
	}{
		{60, Load{QueueWait: 1999 * time.Millisecond}, 0},
		{2, Load{QueueWait: time.Minute}, 0},
		{1, Load{}, 0}, // a pause begins the time again
		{3, Load{QueueWait: time.Minute}, 0},
		{1, Load{QueueWait: 2 * time.Second}, 1},
		{60, Load{QueueWait: 1600 * time.Millisecond}, 1}, // between the thresholds
		{6, Load{KVPercent: 95}, 2},
		{60, Load{KVPercent: 90}, 2}, // 3/4 of 95 is 71
		{20, Load{KVPercent: 70, QueueWait: 3 * time.Second}, 2},
		{1, Load{KVPercent: 70, QueueWait: 3 * time.Second}, 1}, // too much for the first step
		{60, Load{KVPercent: 70, QueueWait: 3 * time.Second}, 1},
		{10, Load{QueueWait: 1400 * time.Millisecond}, 1},
		{1, Load{QueueWait: 1400 * time.Millisecond}, 0},
	} {
		level := 0
		for range s.seconds {
			at = at.Add(time.Second)
			level = c.Observe(at, s.load)
		}
		if level != s.level {
			t.Fatalf("%+v: level %d, want %d", s, level, s.level)
		}
	}
}

// Where the wait was not looked at for a while, nothing is believed of that time.
func TestAGapProvesNothing(t *testing.T) {
	c := newController(t, steps())
	at := time.Unix(1000, 0)
	busy := Load{QueueWait: time.Minute}
	c.Observe(at, busy)
	if at = at.Add(11 * time.Second); c.Observe(at, busy) != 0 {
		t.Error("a step was entered after two looks in eleven seconds")
	}
	if at = at.Add(3 * time.Second); c.Observe(at, busy) != 1 {
		t.Error("a step was not entered after its time")
	}
	if c.Observe(at.Add(-time.Hour), Load{}) != 1 {
		t.Error("a clock that went back left a step")
	}
}

// Whatever the load does and however often it is looked at: one step at a time, each
// not before its thresholds held all through its time, and no change sooner after the
// last one than the shortest of the configured times.
func TestNothingFlaps(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		list := steps()
		c := newController(t, list)
		type look struct {
			at   time.Time
			load Load
		}
		var looks []look
		at, changed, level := time.Unix(1000, 0), time.Unix(1000, 0), 0
		load := Load{}
		for range 2000 {
			at = at.Add(time.Duration(random.IntN(2000)+1) * time.Millisecond)
			if random.IntN(8) == 0 {
				load = Load{QueueWait: time.Duration(random.IntN(12000)) * time.Millisecond, KVPercent: random.IntN(101)}
			}
			looks = append(looks, look{at, load})
			next := c.Observe(at, load)
			if next == level {
				continue
			}
			up := next > level
			step, needs := c.steps[min(level, next)], c.steps[min(level, next)].LeaveAfter
			if up {
				needs = step.EnterAfter
			}
			if next != level+1 && next != level-1 || at.Sub(changed) < needs {
				t.Fatalf("seed %d: from %d to %d after %v, the step's time is %v", seed, level, next, at.Sub(changed), needs)
			}
			for i := len(looks) - 1; i >= 0 && !looks[i].at.Before(at.Add(-needs)); i-- {
				if l := looks[i].load; up == l.under(step.Enter) && up || !up && !l.under(step.Leave) {
					t.Fatalf("seed %d: from %d to %d, but %v before the load was %+v", seed, level, next, at.Sub(looks[i].at), l)
				}
			}
			changed, level = at, next
		}
		if changed.Equal(time.Unix(1000, 0)) {
			t.Errorf("seed %d: no step was ever entered", seed)
		}
	}
}

func TestEffectOfSteps(t *testing.T) {
	if Effect(steps(), 0) != nil {
		t.Error("no step has an effect")
	}
	one, two := Effect(steps(), 1), Effect(steps(), 2)
	if one.Name != "short" || one.MaxTokens != [3]int{0, 512, 128} || len(one.Models) != 0 {
		t.Errorf("the first step is %+v", one)
	}
	if two.Name != "small" || two.MaxTokens != [3]int{1024, 512, 64} || two.Models["large"] != "tiny" || two.Speculation != inference.ToggleOff {
		t.Errorf("both steps are %+v", two)
	}
}

func TestWrongStepsAreNamed(t *testing.T) {
	for says, change := range map[string]func(*Step){
		"name must be":            func(s *Step) { s.Name = "two words" },
		"no threshold is set":     func(s *Step) { s.Enter = Load{} },
		"is negative":             func(s *Step) { s.Enter.QueueWait = -1 },
		"above 100 percent":       func(s *Step) { s.Enter.KVPercent = 101 },
		"come and go":             func(s *Step) { s.Leave.QueueWait = s.Enter.QueueWait },
		"changes nothing":         func(s *Step) { s.MaxTokens = [3]int{} },
		"max_tokens of class 2":   func(s *Step) { s.MaxTokens[2] = -1 },
		`two steps called "small`: func(s *Step) { s.Name = "small" },
	} {
		list := steps()
		change(&list[0])
		if _, err := New(list); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if _, err := New(make([]Step, MaxSteps+1)); err == nil {
		t.Error("too many steps pass")
	}
}

// While some wait, requests are admitted at 4 a second. Before that few come.
func TestExpectedWait(t *testing.T) {
	var w Wait
	at, admitted := time.Unix(1000, 0), uint64(100)
	look := func(looks, waiting int, more uint64) (got time.Duration) {
		for range looks {
			at, admitted = at.Add(250*time.Millisecond), admitted+more
			got = w.Observe(at, waiting, admitted)
		}
		return got
	}
	if got := look(1, 20, 0); got != 0 {
		t.Errorf("nothing was seen, and the wait is %v", got)
	}
	look(1, 0, 0)
	look(400, 0, 0)
	for i, seconds := range []int{1, 100} {
		look(1, 20, 0)
		if got := look(4*seconds, 20, 1); got < 4800*time.Millisecond || got > 6300*time.Millisecond || i > 0 && got > 5100*time.Millisecond {
			t.Errorf("20 waiting at 4 a second for %d s wait %v", seconds, got)
		}
		if got := look(400, 0, 0); got != 0 {
			t.Errorf("no request waits, and the wait is %v", got)
		}
	}
	look(1, 1000, 0)
	if got := look(1000, 1000, 0); got != longestWait {
		t.Errorf("nothing is admitted any more, and the wait is %v", got)
	}
}

func BenchmarkObserve(b *testing.B) {
	c, err := New(steps())
	if err != nil {
		b.Fatal(err)
	}
	at := time.Unix(1000, 0)
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(time.Second)
		c.Observe(at, Load{QueueWait: 3 * time.Second})
	}
}

// Other steps: as many stay in force as were, so far as there are so many, and the next
// change is by the new thresholds, after the whole of their time.
func TestReplacedSteps(t *testing.T) {
	step := func(name string, wait time.Duration) Step {
		return Step{Name: name, Enter: Load{QueueWait: wait}, EnterAfter: 2 * time.Second, LeaveAfter: 4 * time.Second, MaxTokens: [3]int{9, 9, 9}}
	}
	c, err := New([]Step{step("a", time.Second), step("b", 5*time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1000, 0)
	run := func(seconds int, wait time.Duration) (level int) {
		for range seconds {
			at = at.Add(time.Second)
			level = c.Observe(at, Load{QueueWait: wait})
		}
		return level
	}
	replace := func(want int, steps ...Step) {
		t.Helper()
		if level, err := c.Replace(steps); err != nil || level != want {
			t.Errorf("%d steps are in force, %v; want %d", level, err, want)
		}
	}
	if level := run(6, 6*time.Second); level != 2 {
		t.Fatalf("level %d", level)
	}
	if level, err := c.Replace([]Step{{Name: "b"}}); err == nil || level != 2 {
		t.Errorf("invalid steps: level %d, %v", level, err)
	}
	run(3, 0) // a second more, and b would be left
	replace(2, step("c", 10*time.Second), step("d", 20*time.Second), step("e", time.Minute))
	if level := run(4, 0); level != 2 {
		t.Errorf("a new step was left before its time: level %d", level)
	}
	if level := run(1, 0); level != 1 {
		t.Errorf("level %d", level)
	}
	replace(1, step("c", time.Second))
	if level := run(10, time.Second); level != 1 {
		t.Errorf("level %d of 1 step", level)
	}
	replace(0)
	if level := run(100, time.Hour); level != 0 {
		t.Errorf("level %d without steps", level)
	}
	replace(0, step("f", time.Second))
	if level := run(3, time.Minute); level != 1 {
		t.Errorf("level %d", level)
	}
}
