package transfer

import (
	"strconv"
	"time"

	"colab-mcp/state"
)

// BegunLimits are for Files.Begun: an upload is remembered as long as its staging file is kept.
var BegunLimits = state.Limits{Count: 500, Age: 72 * time.Hour}

// begun is how many bytes of an upload were confirmed when it was last seen, by this process or an earlier one. A runtime that has fewer
// is not the one they were sent to.
func (f *Files) begun(key string) int64 {
	if f.Begun == nil {
		return 0
	}
	raw, err := f.Begun.Get(key)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(raw), 10, 64)
	return n
}

// goesOn takes note of how far an upload is. It costs no fsync, and what is lost with it is one sentence.
func (f *Files) goesOn(key string, confirmed int64) {
	if f.Begun != nil {
		f.Begun.Put(key, strconv.AppendInt(nil, confirmed, 10))
	}
}

// over forgets an upload that left nothing to go on with.
func (f *Files) over(key string) {
	if f.Begun != nil {
		f.Begun.Delete(key)
	}
}
