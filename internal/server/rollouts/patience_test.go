package rollouts

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Answers may take their time as long as they come; a check ends without one, and after a time that bounds it.
func TestPatience(t *testing.T) {
	for every, want := range map[time.Duration]string{
		checkedAnswerTime - time.Second: "it was not through after 30m0s",
		checkedAnswerTime + time.Second: "nothing was answered for 3m0s",
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPatience(t.Context())
			defer p.end()
			began := time.Now()
			for p.ctx.Err() == nil && time.Since(began) < 2*candidateCheckTime {
				time.Sleep(every)
				synctest.Wait()
				p.answered()
			}
			if cause := context.Cause(p.ctx); cause == nil || !strings.Contains(cause.Error(), want) {
				t.Errorf("answers every %v: ended after %v by %v; want %s", every, time.Since(began), cause, want)
			}
			if least := min(candidateCheckTime, every); time.Since(began) < least {
				t.Errorf("answers every %v: ended after %v", every, time.Since(began))
			}
		})
	}
}
