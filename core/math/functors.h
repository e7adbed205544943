// All functors that core/math/list.h names.
#pragma once

#include "core/math/activation.h"
#include "core/math/arithmetic.h"
#include "core/math/compare.h"
#include "core/math/exponential.h"
#include "core/math/gamma.h"
#include "core/math/gradient.h"
#include "core/math/hyperbolic.h"
#include "core/math/list.h"
#include "core/math/rounding.h"
#include "core/math/special.h"
#include "core/math/trigonometric.h"
