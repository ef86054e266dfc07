from django.contrib import admin
from django.contrib.auth.views import PasswordResetConfirmView
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import include, path, register_converter
from django_filters import FilterSet, rest_framework
from rest_framework import response, routers, serializers, views, viewsets

from opaque_id.django import IdSearch, converter

from .models import Book, Customer, Part, User, UserId


class UserAdmin(IdSearch, admin.ModelAdmin):
    search_fields = ["name"]


admin.site.register(Customer, UserAdmin)
admin.site.register(Book)
register_converter(converter(UserId), "user_id")


def show(request, id):
    return HttpResponse(Customer.objects.get(id=id).name)


def book(request):
    return HttpResponse(get_object_or_404(Book, pk=request.GET["id"]).title)


def own(request):
    return HttpResponse(request.user.username)


class BookSerializer(serializers.ModelSerializer):
    class Meta:
        model = Book
        fields = ["id", "title", "author", "readers"]
        extra_kwargs = {"readers": {"required": False}}


class LinkedSerializer(serializers.HyperlinkedModelSerializer):
    class Meta:
        model = Book
        fields = ["url", "title", "author"]


class PartSerializer(serializers.ModelSerializer):
    class Meta:
        model = Part
        fields = ["id", "uses"]
        extra_kwargs = {"uses": {"required": False}}


class StaffSerializer(serializers.ModelSerializer):
    class Meta:
        model = User
        fields = ["id"]


class BookFilter(FilterSet):
    class Meta:
        model = Book
        fields = {"id": ["exact", "in", "gt"], "author": ["exact"], "readers": ["exact"]}


class RestFilter(rest_framework.FilterSet):
    class Meta:
        model = Book
        fields = ["id"]


class Books(viewsets.ModelViewSet):
    queryset = Book.objects.order_by("pk")
    serializer_class = BookSerializer

    def filter_queryset(self, queryset):
        return BookFilter(self.request.GET, queryset).qs


class LinkedBooks(Books):
    serializer_class = LinkedSerializer


class Parts(viewsets.ModelViewSet):
    queryset = Part.objects.order_by("pk")
    serializer_class = PartSerializer


class Staff(viewsets.ModelViewSet):
    queryset = User.objects.order_by("pk")
    serializer_class = StaffSerializer


class Values(views.APIView):
    def get(self, request):
        return response.Response(list(Book.objects.values("id", "author")))


router = routers.DefaultRouter()
router.register("linked", LinkedBooks, "linked")
router.register("books", Books)
router.register("parts", Parts)
router.register("users", Staff)

urlpatterns = [
    path("users/<user_id:id>", show, name="show"),
    path("book", book),
    path("own", own),
    path("values", Values.as_view()),
    path("json", lambda request: JsonResponse(BookSerializer(Book.objects.all(), many=True).data, safe=False)),
    path("reset/<uidb64>/<token>/", PasswordResetConfirmView.as_view(success_url="/"), name="password_reset_confirm"),
    path("api/", include(router.urls)),
    path("admin/", admin.site.urls),
]
