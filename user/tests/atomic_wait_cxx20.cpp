// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What C++20 waits with: std::atomic, semaphores, latches, barriers and stop tokens. The library
// waits by the futex system call on words of its own, and by spinning before that.
#include "check.h"
#if __cplusplus < 202002L || !__has_include(<semaphore>)
int main() { SKIP("this compiler has no C++20"); }
#else
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <semaphore>
#include <thread>
#include <vector>

namespace {

constexpr int THREADS = 12, ROUNDS = 300;

// Two threads hand a number to and fro; words of the futex's size, smaller and larger ones.
template <typename Number> void ping_pong()
{
	std::atomic<Number> ball{0};
	auto player = [&](Number mine, Number other) {
		for (int i = 0; i < ROUNDS; i++) {
			for (Number seen; (seen = ball.load()) != mine;)
				ball.wait(seen);
			ball.store(other);
			ball.notify_one();
		}
	};
	std::jthread one(player, Number(0), Number(1)), other(player, Number(1), Number(0));
}

void everybody()
{
	std::atomic_flag gate;
	std::atomic<int> through{0};
	std::vector<std::jthread> threads;
	for (int i = 0; i < THREADS; i++)
		threads.emplace_back([&] {
			gate.wait(false);
			if (++through == THREADS)
				through.notify_all();
		});
	sleep_ms(5);
	gate.test_and_set();
	gate.notify_all();
	for (int seen; (seen = through.load()) != THREADS;)
		through.wait(seen);
}

// Where two threads try at once, libstdc++ 12 has the loser sleep although there are permits, and
// wakes nobody while there are some: its `acquire` may never end, natively too.
template <typename Semaphore> void acquire(Semaphore &permits)
{
	while (!permits.try_acquire_for(std::chrono::milliseconds(50)))
		;
}

void semaphores()
{
	std::counting_semaphore<3> permits(3);
	std::binary_semaphore none(0);
	std::atomic<int> holders{0}, most{0};
	std::vector<std::jthread> threads;
	for (int i = 0; i < THREADS; i++)
		threads.emplace_back([&] {
			for (int round = 0; round < ROUNDS / 4; round++) {
				acquire(permits);
				int now = ++holders;
				for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);)
					;
				if (round % 8 == 0)
					std::this_thread::yield();
				holders--;
				permits.release();
			}
		});
	threads.clear();
	CHECK(most <= 3);
	CHECK(!none.try_acquire_for(std::chrono::milliseconds(20)));
	std::jthread later([&] {
		std::this_thread::sleep_for(std::chrono::milliseconds(5));
		none.release();
	});
	CHECK(none.try_acquire_for(std::chrono::seconds(20)));
	std::jthread again([&] {
		std::this_thread::sleep_for(std::chrono::milliseconds(5));
		none.release();
	});
	none.acquire();
}

void meetings()
{
	int phases = 0;
	std::latch started(THREADS + 1);
	std::barrier meeting(THREADS, [&]() noexcept { phases++; });
	{
		std::vector<std::jthread> threads;
		for (int i = 0; i < THREADS; i++)
			threads.emplace_back([&] {
				started.arrive_and_wait();
				for (int round = 0; round < 50; round++) {
					meeting.arrive_and_wait();
					CHECK(phases > round);
				}
			});
		started.count_down();
		started.wait();
	}
	CHECK_EQ(phases, 50);
}

void stops()
{
	std::mutex mutex;
	std::condition_variable_any never;
	std::atomic<int> stopped{0};
	{
		std::vector<std::jthread> threads;
		for (int i = 0; i < THREADS; i++)
			threads.emplace_back([&](std::stop_token token) {
				std::unique_lock<std::mutex> guard(mutex);
				never.wait(guard, token, [] { return false; });
				stopped++;
			});
	}
	CHECK_EQ(stopped.load(), THREADS);
}

} // namespace

int main()
{
	ping_pong<int>();
	ping_pong<signed char>();
	ping_pong<long>();
	everybody();
	semaphores();
	meetings();
	stops();
	return 0;
}
#endif
