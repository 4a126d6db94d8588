package ratelimit

import (
	"math"
	"time"
)

// pace is how fast an answer is generated, from one renewal of its lease to the next.
type pace struct {
	at        time.Time // of the last renewal, or of the grant
	generated int64     // until then
}

// most is how many output tokens an answer may have at its process's end, if that comes before the next renewal: twice as
// many more as its pace makes of the time until then. Before its first
// token an answer has no pace, and no bound.
func (p *pace) most(generated int64, now time.Time, next time.Duration) int64 {
	const beside = 64 // an answer that has just begun, or waited
	if generated == 0 {
		return math.MaxInt32
	}
	took := max(now.Sub(p.at), time.Millisecond)
	more := float64(generated-p.generated) * float64(next) / float64(took)
	*p = pace{now, generated}
	return min(generated+int64(math.Ceil(2*more))+beside, math.MaxInt32)
}
