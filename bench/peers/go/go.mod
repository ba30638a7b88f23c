module heddle/bench/peers/go

go 1.19
