# A sieve in a list, and strings put together.
proc sieve {n} {
    set composite [lrepeat [expr {$n + 1}] 0]
    for {set i 2} {$i * $i <= $n} {incr i} {
        if {![lindex $composite $i]} {
            for {set j [expr {$i * $i}]} {$j <= $n} {incr j $i} { lset composite $j 1 }
        }
    }
    set primes {}
    for {set i 2} {$i <= $n} {incr i} { if {![lindex $composite $i]} { lappend primes $i } }
    return $primes
}
set primes [sieve 60000]
set text ""
foreach p $primes { append text [string map {1 one 7 seven} $p] " " }
puts "[llength $primes] [string length $text] [lindex [lsort -decreasing [split $text]] 0]"
