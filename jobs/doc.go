// Package jobs runs cells so that nothing a user started is lost to an
// impatient caller: every run is a job, and a foreground call is a job that
// somebody waits for.
//
// Start at [Manager]: Start makes a [Job] of any work that takes turns at the
// gate; cells.go is the work of running cells, code.go that of ad-hoc code,
// relay.go that of a tab's own tool. Transfers are jobs of another package.
//
// What always holds:
//
//   - A turn is taken for one cell and given up after it, so a foreground call
//     goes between two cells of a job.
//   - A job ends in one status. What was sent and not answered makes it lost,
//     and is read back, never run again, when its notebook returns.
//   - A caller who leaves ends the job after its current cell.
//   - A temporary cell is deleted whatever happens.
//   - The newest jobs and what was cut from their results survive the process.
package jobs
