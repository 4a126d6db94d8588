package edge

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/router"
)

// What another server says of trying again stands in place of the code's own.
func TestAdviceOfOtherServersIsTold(t *testing.T) {
	refused := fmt.Errorf("%w: r: slower", inference.ErrTenantQueueFull)
	if e := Fault(refused); e.Code != "rate_limit_exceeded" || !e.Retries() {
		t.Errorf("without advice: %+v", e)
	}
	for _, advice := range []router.RetryAdvice{{After: 7 * time.Second}, {After: time.Hour, Never: true}, {Never: true}} {
		e := Fault(fmt.Errorf("model m: %w", &router.RetryAdviceError{Err: refused, Advice: advice}))
		if e.Code != "rate_limit_exceeded" || e.RetryAfter != advice.After || e.Retries() == advice.Never {
			t.Errorf("%+v: %+v", advice, e)
		}
	}
}
